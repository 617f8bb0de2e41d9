"""Experiments whose blocks run in worker processes, in a place that answers in no time unless it is told to wait."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.base.python import module_command
from tests.packages import ROOT, commands, install
from tests.patience import until

pytestmark = pytest.mark.xdist_group("whole machine")  # each of these runs has it to itself, and would wait for others

PLACE = """\
import os, time
from testbed.lab.place import DeclaredPlace

class Waiting(DeclaredPlace):
    def open(self, opening):
        from testbed.testing import IdealPlace
        class Place(IdealPlace):
            def run(self, *of):
                time.sleep(float(os.environ.get("EACH_S", "0")))
                return super().run(*of)
        return Place()

PLACE = Waiting("waiting")
"""
SPEC = """\
name: small
lab: waiting
links: {rate: [4 Gbit/s, 2 Gbit/s]}
workload: {kind: profile, model: vgg19, batch: 32, iterations: 3, scale: 20}
arms:
  - {label: PS, topology: star(hosts=3), scheme: ps}
  - {label: ring, topology: star(hosts=3), scheme: ring}
quiet: 0 s
retries: 0
"""
STOPPING = """\
import os, signal
from testbed.spread import gather
from testbed.spread.local import Local as Engine

gather.Spread._tell = lambda *_: os.kill(os.getpid(), signal.SIGINT)
"""

STARTED_S = 120.0
"""Within which a run's workers, and processes of theirs, have started and finished trials."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "waiting.py").write_text(PLACE)
    (tmp_path / "spec.yaml").write_text(SPEC)
    install(tmp_path, {"testbed.labs": {"waiting": "waiting:PLACE"}})
    return tmp_path


def begun(folder: Path, *words: str, each_s: float = 1.5) -> subprocess.Popen[str]:
    """A run that goes on, in which each trial takes a while."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.Popen(
        module_command("testbed", "run", *words),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "EACH_S": str(each_s)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def records(run: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in (run / "trials").glob("*.json")}


def sections(run: Path) -> list[str]:
    """Headings of a run's report."""
    return re.findall("<h2.*?>(.*?)</h2>", (run / "report.html").read_text(), re.DOTALL)


def blocks_of(pid: int) -> dict[int, int]:
    """Processes below a run's process that run a block, by number, and their workers."""
    parents: dict[int, int] = {}
    blocks: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                words = (entry / "cmdline").read_bytes().split(b"\0")
                has_order = (entry / "cwd").readlink() != Path("/")
            except OSError:
                continue
            if b"testbed.spread.block" in words and has_order:
                blocks.append(int(entry.name))
    return {block: parents[block] for block in blocks if parents.get(parents[block]) == pid}


def test_two_workers_make_the_run_that_parts_and_merge_make(folder: Path) -> None:
    spread, *parts, merged = commands(
        folder,
        ("run", "spec.yaml", "--on", "local://2", "--out", "spread"),
        ("run", "spec.yaml", "--part", "1/2", "--out", "p1"),
        ("run", "spec.yaml", "--part", "2/2", "--out", "p2"),
        ("merge", "p1", "p2", "--out", "merged"),
    )
    assert [one.code for one in (spread, *parts, merged)] == [0, 0, 0, 0], spread
    ours, theirs = records(folder / "spread"), records(folder / "merged")
    assert {name: one["identity"] for name, one in ours.items()} == {n: one["identity"] for n, one in theirs.items()}
    by_rate: dict[str, set[str]] = {}
    for one in ours.values():
        by_rate.setdefault(one["at"], set()).add(one["machine"])
    assert [len(machines) for machines in by_rate.values()] == [1, 1]
    rows = [
        [line.split(",")[0] for line in (folder / run / "results.csv").read_text().splitlines()]
        for run in ("spread", "merged")
    ]
    assert rows[0] == rows[1]
    assert sections(folder / "spread") == sections(folder / "merged") != []
    assert not (folder / "spread/lost").exists()
    assert not (folder / "spread/blocks").exists()


def test_a_worker_that_is_killed_takes_its_block_along_and_the_block_is_done_again(folder: Path) -> None:
    (folder / "spec.yaml").write_text(SPEC.replace("[4 Gbit/s, 2 Gbit/s]", "4 Gbit/s"))
    run = begun(folder, "spec.yaml", "--on", "local://2", "--out", "run")
    until(lambda: list((folder / "run/blocks").glob("*/trials/*.json")), STARTED_S)
    ((block, worker),) = blocks_of(run.pid).items()
    os.kill(worker, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{block}").exists())
    said, _ = run.communicate(timeout=60)
    assert run.returncode == 0, said
    found = records(folder / "run")
    assert len(found) == 2
    assert {one["status"] for one in found.values()} == {"done"}
    assert len(list((folder / "run/lost").glob("*/trials/*.json"))) == 1
    assert "is lost to PS-b32 and what is compared with it" in said
    (machine,) = {one["machine"] for one in found.values()}
    assert f"{machine} is lost" not in said


def test_blocks_of_a_worker_share_a_process_and_what_it_opened(folder: Path) -> None:
    opened = PLACE.replace("        return Place()", "        open('opened', 'a').write('x')\n        return Place()")
    (folder / "waiting.py").write_text(opened.replace("'opened'", repr(str(folder / "opened"))))
    (ran,) = commands(folder, ("run", "spec.yaml", "--on", "local://1", "--out", "run"))
    assert ran.code == 0, ran
    assert {one["status"] for one in records(folder / "run").values()} == {"done"}
    assert len({one["at"] for one in records(folder / "run").values()}) == 2
    assert (folder / "opened").read_text() == "x"


@pytest.mark.parametrize("end", [pytest.param(signal.SIGKILL, marks=pytest.mark.rehearse), signal.SIGINT])
def test_blocks_end_with_a_run_that_is_ended_and_whole_ones_do_not_run_again(folder: Path, end: signal.Signals) -> None:
    run = begun(folder, "spec.yaml", "--on", "local://1", "--out", "run", each_s=1.2)
    until(lambda: len(records(folder / "run")) == 2 if (folder / "run/trials").exists() else False, STARTED_S)
    whole = records(folder / "run")
    until(lambda: list((folder / "run/blocks").glob("*/trials/*.json")), STARTED_S)
    left = blocks_of(run.pid)
    run.send_signal(end)
    said, _ = run.communicate(timeout=60)
    until(lambda: not any(Path(f"/proc/{one}").exists() for one in left))
    if end == signal.SIGINT:
        assert run.returncode == 130
        assert "2 of 4 trials" in said
        assert "--resume" in said
        assert len(list((folder / "run/lost").glob("*/trials/*.json"))) == 1
        assert not (folder / "run/blocks").exists()
        return
    (again,) = commands(folder, ("run", "--resume", "run", "--on", "local://1"))
    assert again.code == 0, again
    found = records(folder / "run")
    assert len(found) == 4
    assert {name: found[name] for name in whole} == whole


def test_a_block_whose_trial_is_just_coming_back_ends_with_its_run(folder: Path) -> None:
    install(folder, {"testbed.labs": {"waiting": "waiting:PLACE"}, "testbed.engines": {"stopping": "stopping:Engine"}})
    (folder / "stopping.py").write_text(STOPPING)
    (ran,) = commands(folder, ("run", "spec.yaml", "--on", "stopping://1", "--out", "run"))
    assert ran.code == 130, ran
    assert records(folder / "run") == {}
    assert len(list((folder / "run/lost").glob("*/trials/*.json"))) == 1
    assert not (folder / "run/blocks").exists()


@pytest.mark.rehearse
def test_a_block_that_three_workers_were_lost_with_fails_and_others_go_on(folder: Path) -> None:
    broken = PLACE.replace("time.sleep(", "'2 G' in of[0].at and os._exit(7); time.sleep(")
    (folder / "waiting.py").write_text(broken)
    (ran,) = commands(folder, ("run", "spec.yaml", "--on", "local://1", "--out", "run"))
    assert ran.code == 1, ran
    by_status = sorted((one["status"], one["at"]) for one in records(folder / "run").values())
    assert by_status == [("done", "rate=4 Gbit/s")] * 2 + [("failed", "rate=2 Gbit/s")] * 2
    failed = next(one for one in records(folder / "run").values() if one["status"] == "failed")
    assert failed["error"].startswith("lost with 3 workers: worker-1: its process ended with exit code 7")


def test_a_run_waits_for_one_that_has_the_machine_to_itself(tmp_path: Path) -> None:
    code = f"from testbed.machine import exclusive as e; e.ROOT = {str(tmp_path)!r}; print(e.is_taken(), flush=True);"
    code += "e.hold(lambda: print('waits', flush=True)); print(e.is_taken(), flush=True); input()"
    words = [sys.executable, "-P", "-c", code]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    first = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    assert first.stdin
    assert first.stdout
    first.stdout.readline()
    assert first.stdout.readline() == "False\n"
    second = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    assert second.stdout
    assert [second.stdout.readline(), second.stdout.readline()] == ["True\n", "waits\n"]
    first.communicate("\n")
    assert second.communicate("\n")[0] == "False\n"
