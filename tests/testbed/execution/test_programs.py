"""A command in a real lab: what a rank is told, what is measured, and what a user reads when a rank fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from testbed.base.errors import TrialTimeoutError
from testbed.control.feed import Feed
from testbed.evidence.referee import Referee
from testbed.evidence.spot_checks import Made, Readings
from testbed.execution import programs
from testbed.execution.accounting import account
from testbed.execution.observed import Observed
from testbed.execution.programs import Activity, _lent
from testbed.experiment.expand import trials
from testbed.experiment.planning import plan, text
from testbed.lab.base import LinkSettings
from testbed.lab.measurements import Counters
from testbed.lab.programs import Exit, Launch, Program
from testbed.machine.monitor import CpuLog
from testbed.perturb.circuits import State
from testbed.recovery.deaths import undisturbed
from testbed.spec import read
from testbed.topologies.build import build
from testbed.trial.files import Files

from ..conftest import Called
from ..experiment.test_run import call
from ..fake_lab import FakeLab

SPEC = """\
name: order
links: {rate: 100 Mbit/s}
workload:
  kind: command
  command: python script.py --words 'one two'
arms:
  - {topology: star(hosts=2)}
  - {label: racks, topology: "spine_leaf(racks=2,hosts_per_rack=1,spines=1)"}
timeout: 10 s
retries: 0
quiet: 0 s
"""
MEETS = """
import os, socket, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
tensor = torch.full((500_000,), float(dist.get_rank()))
dist.all_reduce(tensor)
assert tensor[0] == sum(range(dist.get_world_size()))
for name in ("HOME", "XDG_CACHE_HOME"):
    open(os.path.join(os.environ[name], "own"), "w").write(name)
print(socket.gethostname(), sys.argv[1:], os.getcwd(), os.environ["RANK"], os.environ["LOCAL_RANK"], flush=True)
dist.destroy_process_group()
"""
FAILS = """
import os, sys, time
print("rank", os.environ["RANK"], "begins", flush=True)
if os.environ["RANK"] == "1":
    sys.exit("no such shard: 1")
time.sleep(60)
"""
HANGS = "import time\nprint('waiting for nobody', flush=True)\ntime.sleep(60)\n"


def words(folder: Path, script: str, **changes: str) -> list[str]:
    """The command that runs a script, which is in ``folder``, into ``folder/out``."""
    folder.mkdir()
    (folder / "spec.yaml").write_text(SPEC)
    (folder / "script.py").write_text(script)
    sets = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    return ["run", str(folder / "spec.yaml"), "--out", str(folder / "out"), *sets]


def test_a_plan_says_what_would_be_built_and_that_no_more_is_known(tmp_path: Path) -> None:
    (tmp_path / "script.py").touch()
    planned = plan(read(SPEC, "spec.yaml", tmp_path))
    assert [trial["trial"] for trial in planned["trials"]] == ["command-star2", "racks"]
    assert planned["trials"][0]["command"] == ["python", "script.py", "--words", "one two"]
    assert planned["trials"][0]["gst_theory_s"] is None
    assert planned["trials"][1]["builds"]["processes"] == 2
    assert "about 2 min 5 s, if a command takes a minute" in text(planned)
    ring = SPEC.replace("arms:\n", "arms:\n  - {topology: star(hosts=4), scheme: ring}\n")
    planned = plan(read(ring, "spec.yaml", tmp_path))
    assert "about 2 min 25 s, if a script trains for 6 s and a command takes a minute" in text(planned)


def test_repeats_have_ids_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "script.py").touch()
    source = read(SPEC, "spec.yaml", tmp_path, ["repeats=2"])
    assert [trial.id for trial in trials(source)][::3] == ["command-star2-r1", "command-star2-r2"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("command")
    arguments = words(folder / "mine", MEETS)
    one_arm = SPEC.replace("  - {topology: star(hosts=2)}\n", "")  # each rank of an arm imports PyTorch
    (folder / "mine" / "spec.yaml").write_text(one_arm)
    done = call(folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, folder / "mine" / "out"


@pytest.mark.lab
def test_ranks_meet_over_the_network_from_the_specs_directory(finished: tuple[str, Path]) -> None:
    _, out = finished
    for host in range(2):
        *_, line = (out / "logs" / "racks" / f"h{host}.log").read_text().splitlines()
        assert line == f"h{host} ['--words', 'one two'] {out.parent} {host} 0"


@pytest.mark.lab
def test_its_time_bytes_and_fidelity_are_reported(finished: tuple[str, Path]) -> None:
    said, out = finished
    record: dict[str, Any] = json.loads((out / "trials" / "racks.json").read_text())
    assert (record["status"], record["kind"], record["scheme"], record["world"]) == ("done", "command", "command", 2)
    assert 0.2 < record["metrics"]["jct_s"] < record["duration_s"]
    # Gloo's ring: each host sends 2 (N - 1) / N of 2 MB, at least, and gets as much.
    assert all(2.0e6 < link["bytes"] < 2.7e6 and link["theory_bytes"] is None for link in record["links"])
    assert {one["name"] for one in record["fidelity"]["checks"]} == {
        *("link rate", "delay", "CPU headroom", "CPU steal", "drops", "read back"),
        *("run queue", "timers", "stalls", "retransmissions", "CPU quota"),
    }
    assert len(record["probes"]) == 2
    assert "[1/1] racks: JCT " in said
    results = pd.read_csv(out / "results.csv")
    assert list(results["status"]) == ["done"]
    assert (results["jct_s"] > 0).all()
    page = (out / "report.html").read_text()
    assert "JCT of a command runs from the moment its first rank is started" in page
    assert "How close is synchronisation" not in page


@pytest.mark.lab
def test_a_rank_that_fails_is_named_with_the_end_of_its_log(testbed: Callable[..., Called], tmp_path: Path) -> None:
    called = testbed(*words(tmp_path / "mine", FAILS, arms="[{topology: star(hosts=3)}]"))
    assert called.code == 1
    assert (
        "[1/1] command-star3: FAILED: rank 1 on h1 ended with exit status 1; still running a moment later: h0, h2\n"
        "    | rank 1 begins\n"
        "    | no such shard: 1\n"
        f"  fix: mend what the log tells; all of its log: {tmp_path / 'mine/out/logs/command-star3/h1.log'}\n"
    ) in called.out


@pytest.mark.lab
def test_a_command_that_does_nothing_is_ended_at_the_timeout(testbed: Callable[..., Called], tmp_path: Path) -> None:
    called = testbed(*words(tmp_path / "mine", HANGS, arms="[{topology: star(hosts=2)}]", timeout="3 s"))
    assert called.code == 1
    assert (
        "FAILED: for 3 s no rank wrote anything and no link carried anything, and no rank computed; "
        "still running: rank 0 on h0, rank 1 on h1\n"
        "    | waiting for nobody\n"
        f"  fix: read {tmp_path / 'mine/out/logs/command-star2/h0.log'}, or give a longer timeout\n"
    ) in called.out


def test_a_rank_that_computes_in_silence_is_waited_for_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that imports a lot on a busy machine, and one that turns in a loop."""
    now_s = 100.0
    monkeypatch.setattr(programs, "time", SimpleNamespace(monotonic=lambda: now_s))
    lab, files = FakeLab(), Files(tmp_path, tmp_path)
    lab.up(build("star(hosts=2)", rate_bps=10**9), LinkSettings(), [])
    launches = [Launch(name, 0, "", str(files.log(name)), Program((), {}, "")) for name in ("h0", "h1")]
    activity = Activity(lab, files, launches, timeout_s=5.0)
    feed = Feed({one.process: None for one in launches})

    def after(seconds: int, used_share: float) -> None:
        nonlocal now_s
        for _ in range(seconds):
            now_s += 1.0
            lab.used_s = {"h0": 3.0, "h1": used_share * now_s}
            activity.look(feed)

    after(40, used_share=0.05)
    with pytest.raises(TrialTimeoutError, match=r"for 5 s no rank wrote .*, and no rank computed; still running"):
        after(7, used_share=0.001)
    files.log("h0").parent.mkdir(parents=True, exist_ok=True)
    files.log("h0").write_text("loaded")
    after(50, used_share=1.0)
    with pytest.raises(TrialTimeoutError, match=r"for 5[56] s no rank wrote .*, though a rank computed; still running"):
        after(7, used_share=1.0)


LENT = """
import importlib.metadata, importlib.util, testbed
(entry,) = importlib.metadata.entry_points(group="torch.backends")
print(entry.name, entry.load().__module__, *(importlib.util.find_spec(name) for name in ("analysis", "numpy")))
"""


def test_a_python_without_testbed_finds_it_and_nothing_else_of_ours(tmp_path: Path) -> None:
    words = [sys.executable, "-S", "-P", "-c", LENT]  # -S: without any installed package
    environment = {"PYTHONPATH": str(_lent(tmp_path / "lent"))}
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "testbed testbed.autoload None None\n"


def summary(folder: Path, readings: Readings) -> dict[str, Any]:
    """Of a command that ran from 1 to 3 s, with a background flow."""
    (folder / "script.py").touch()
    flow = "perturb={kind: background, from: h0, to: h1}"
    (trial,) = trials(read(SPEC, "spec.yaml", folder, ["arms=[{topology: star(hosts=2)}]", flow]))
    counted = [Counters(link, 3_000_000, 2000, 0) for link in range(2 * len(trial.network.topology.links))]
    flows, circuits = [1_448_000], [State(trial.network.topology)]
    exits = [Exit("h0", 0, 0, 1.0, 3.0), Exit("h1", 1, 0, 1.5, 2.5)]
    courses = {trial.job.name: undisturbed(trial.job)}
    seen = Observed(trial, counted, CpuLog(), {}, None, readings, [], flows, circuits, exits=exits, courses=courses)
    outcome = account(trial, trial.job, seen, Referee(), Files(folder, folder))
    assert (outcome.error, outcome.samples, outcome.record["metrics"]) == (None, None, {"jct_s": 2.0})
    return outcome.record


@pytest.mark.parametrize(("made_s", "value", "told"), [(2.0, 0.0, "1 reading in mid-run"), (0.5, None, "no reading")])
def test_a_reading_before_the_first_rank_starts_is_not_in_mid_run(
    tmp_path: Path, made_s: float, value: float | None, told: str
) -> None:
    checks = summary(tmp_path, Readings([Made(made_s, made_s + 0.01, 4)]))["fidelity"]["checks"]
    found = next(check for check in checks if check["name"] == "read back")
    assert (found["ok"], found["value"]) == (True, value)
    assert told in found["detail"]


def test_bytes_of_background_flows_are_not_the_commands(tmp_path: Path) -> None:
    links = {(link["from"], link["to"]): link for link in summary(tmp_path, Readings())["links"]}
    for ends, others in (("h0", "s0"), 1_514_000), (("s0", "h1"), 1_514_000), (("h1", "s0"), 0), (("s0", "h0"), 0):
        assert (links[ends]["bytes"], links[ends]["other_bytes"]) == (3_000_000 - others, others)
