"""What ranks of a script are told, and what comes of what they tell: with ranks that only write rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load as load_run
from testbed.base.units import time_text
from testbed.execution import programs, scripts
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.topologies.addressing import plan as addresses_of
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.workloads.job import WorkerJob
from testbed.workloads.kinds import load
from testbed.workloads.rank_job import VARIABLE, RankJob
from testbed.workloads.sync.chunk_size import CHUNK_BYTES
from tests.record_faults import faults

from ..bench import Bench
from ..conftest import Called

METRICS = "metrics: {loss: 'loss ([0-9.]+)', none: 'accuracy ([0-9.]+)'}"
SPEC = f"""\
name: scripted
links: {{rate: 100 Mbit/s}}
workload: {{kind: command, command: torchrun --nnodes=1:9 rank.py a, check: 3, warmup: 5,
  {METRICS}}}
arms:
  - {{topology: star(hosts=3), scheme: ring}}
  - {{topology: "star(hosts=3,ina=all)", scheme: switchml}}
  - {{topology: star(hosts=3), scheme: gloo}}
  - {{topology: "bcube(n=2,k=2)", scheme: bml}}
  - {{topology: star(hosts=3)}}
retries: 0
quiet: 0 s
"""
RANK = """
import json, os, time
job = json.load(open(os.environ["TESTBED_RANK"]))
out = open(job["samples"], "w", buffering=1)
def say(kind, **said):
    out.write(json.dumps({"kind": kind, **said}) + "\\n")
slow = {"torch": "2.12.1", "slow_rows": True} if job["rank"] == 1 else {}
hello = dict(rank=job["rank"], node=job["node"], name=job["name"], congestion_control="reno", time=time.monotonic())
say("hello", **hello, **slow)
time.sleep(1)  # its set-up
for i in range(3 * (os.environ["RANK"] != "")):
    asked_s = time.monotonic()
    time.sleep(0.02)
    call = dict(seq=i, group=0, op="allreduce", dtype="float32", bytes=400_000, by="scheme", ranks=job["world"])
    came_s = asked_s + 0.004
    say("call", asked_s=asked_s, begun_s=asked_s, came_s=came_s, done_s=time.monotonic(), waited_s=0.01, **call)
    print("loss", 3 - i, flush=True)
say("done", max_rss_bytes=1000, wire_bytes=400_000, sent=None)
"""


def planned(folder: Path) -> list[Trial]:
    return trials(read(SPEC, "spec.yaml", folder))


def written(trial: Trial, folder: Path) -> Files:
    """What was written for a trial, in its own folder."""
    names = [node.name for node in trial.topology.nodes]
    files = Files(folder, folder, {name: name for name in names})
    scripts.write(trial, files, "reno")
    return files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rank.py").write_text(RANK)
    return tmp_path


def test_a_rank_is_told_its_place_and_the_plan(folder: Path) -> None:
    trial = planned(folder)[0]
    files = written(trial, folder)
    job = RankJob.load(files.job("h1"))
    assert (job.rank, job.world, job.node, job.name, job.check, job.library) == (1, 3, 1, "h1", 3, "")
    assert {peer.node for peer in job.peers} == {0, 2}
    assert len(set(job.addresses)) == 3
    assert Path(job.samples).parent == folder / "h1"
    plan = load(Path(job.plan))
    assert (plan.kind, plan.scheme, plan.workers) == ("script", "ring", (0, 1, 2))


def test_ranks_start_without_the_launcher_and_know_their_file(folder: Path) -> None:
    trial = planned(folder)[0]
    files = Files(folder, folder)
    first, *_ = programs.launches(trial, files)
    assert first.program is not None
    assert first.program.words == ("python", "-u", "rank.py", "a")
    assert first.program.environment[VARIABLE] == first.job == str(files.job("h0"))


def test_an_arm_without_a_scheme_starts_its_words_as_they_are(folder: Path) -> None:
    trial = planned(folder)[-1]
    first, *_ = programs.launches(trial, Files(folder, folder))
    assert first.program is not None
    assert first.program.words == ("torchrun", "--nnodes=1:9", "rank.py", "a")
    assert VARIABLE not in first.program.environment
    assert (first.job, trial.job.kind.name) == ("", "command")


def test_a_switch_that_adds_is_a_process_of_ours(folder: Path) -> None:
    trial = planned(folder)[1]
    files = Files(folder, folder, {"s0": "s0"})
    (server,) = scripts.write(trial, files, "reno")
    job = WorkerJob.load(Path(server.job))
    assert (server.process, server.program, job.rank, job.buckets) == ("s0", None, None, ())
    assert {peer.node for peer in job.peers} == set(trial.topology.hosts)


@pytest.mark.parametrize(
    ("rate", "chunk", "chunk_bytes"),
    [
        ("100 Mbit/s", "", 128 * 2**10),
        ("400 Mbit/s", "", 250_000),
        ("10 Gbit/s", "", 2 * 2**20),
        ("10 Gbit/s", "chunk: 64 KiB, ", 64 * 2**10),
    ],
)
def test_chunks_suit_the_links_unless_a_size_is_asked_for(
    folder: Path, rate: str, chunk: str, chunk_bytes: int
) -> None:
    text = SPEC.replace("100 Mbit/s", rate).replace("check: 3,", f"check: 3, {chunk}")
    rank, server = trials(read(text, "spec.yaml", folder))[:2]
    assert RankJob.load(written(rank, folder).job("h0")).chunk_bytes == chunk_bytes
    files = Files(folder, folder, {"s0": "s0"})
    (told,) = scripts.write(server, files, "reno")
    assert WorkerJob.load(Path(told.job)).chunk_bytes == min(chunk_bytes, CHUNK_BYTES[1]), "its scheme has windows"


def test_servers_on_hosts_of_their_own_have_no_rank(folder: Path) -> None:
    served = SPEC.replace("star(hosts=3), scheme: ring", "star(hosts=3), scheme: ps(colocated=false)")
    trial = trials(read(served, "spec.yaml", folder))[0]
    ranks = programs.launches(trial, Files(folder, folder))
    assert [one.program.environment["WORLD_SIZE"] for one in ranks if one.program] == ["2", "2"]
    assert [one.process for one in scripts.write(trial, Files(folder, folder), "reno")] == ["h2"]


def test_gloo_is_told_to_carry_the_bytes(folder: Path) -> None:
    trial = planned(folder)[2]
    assert RankJob.load(written(trial, folder).job("h0")).library == "gloo"


def test_ranks_on_a_bcube_reach_each_other_over_the_nic_that_leads_there(folder: Path) -> None:
    trial = planned(folder)[3]
    told = [
        one.program.environment["MASTER_ADDR"] for one in programs.launches(trial, Files(folder, folder)) if one.program
    ]
    job = RankJob.load(written(trial, folder).job("h3"))
    assert told[1] != told[2]  # the first host has a NIC in each of their networks
    assert job.addresses[0] == told[3]


def test_ranks_of_a_plain_command_know_all_addresses_in_their_order(folder: Path) -> None:
    ordered = SPEC.replace("{topology: star(hosts=3)}", "{topology: star(hosts=3), order: [h2, h0, h1]}")
    trial = trials(read(ordered, "spec.yaml", folder))[-1]
    told = {
        one.process: one.program.environment for one in programs.launches(trial, Files(folder, folder)) if one.program
    }
    (machines,) = {one["TESTBED_MACHINES"] for one in told.values()}
    own = [addresses_of(trial.topology).of(host, 0) for host in (2, 0, 1)]
    assert machines == ",".join(f"{address}:12400" for address in own)
    assert [told[name]["RANK"] for name in ("h2", "h0", "h1")] == ["0", "1", "2"]
    scripted = programs.launches(planned(folder)[0], Files(folder, folder))
    assert all("TESTBED_MACHINES" not in one.program.environment for one in scripted if one.program)


@pytest.mark.lab
def test_numbers_that_a_plain_command_prints_are_in_its_record(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text("import os; print('took', int(os.environ['RANK']) + 0.5, 's')")
    spec = SPEC[: SPEC.index("workload")] + (
        "workload: {kind: command, command: python says.py, metrics: {took_s: 'took ([0-9.]+) s', none: 'x (.)'}}\n"
        "arms: [{topology: star(hosts=2), order: [h1, h0]}]\n"
    )
    (outcome,) = bench.run(spec, tmp_path)
    assert outcome.record["logged"] == {"took_s": [[0.5], [1.5]], "none": [[], []]}
    assert outcome.record["left_out"] == ["metrics.none: 'x (.)' finds no number in any log"]


def test_a_plain_commands_identity_does_not_know_keys_of_schemes(folder: Path) -> None:
    plain = SPEC.replace(" check: 3,", "").replace(
        "  metrics: {loss: 'loss ([0-9.]+)', none: 'accuracy ([0-9.]+)'}}", "}"
    )
    with_keys, without = (trials(read(text, "spec.yaml", folder)) for text in (SPEC, plain))
    assert [a.identity == b.identity for a, b in zip(with_keys, without, strict=True)] == [False] * 4 + [True]


@pytest.mark.lab
def test_what_ranks_tell_becomes_a_trial_with_iterations(folder: Path, testbed: Callable[..., Called]) -> None:
    """The ranks send nothing, and the check of bytes sees it."""
    (folder / "spec.yaml").write_text(SPEC)
    one_arm = "arms=[{topology: star(hosts=2), scheme: ring}]"
    called = testbed("run", str(folder / "spec.yaml"), "--out", str(folder / "out"), "--set", one_arm)
    record: dict[str, Any] = json.loads((folder / "out/trials/ring-star2.json").read_text())
    assert record["status"] == "done", called.out + called.err
    assert (record["moves"], record["kind"], record["scheme"], record["iterations"]) == ("script", "command", "ring", 3)
    assert 0.0195 < record["metrics"]["gst_median_s"] < 1
    assert record["metrics"]["exposed_s"] == pytest.approx(0.01)
    assert 0.06 < record["metrics"]["jct_s"] < record["duration_s"] - 1, "without the second that came before"
    assert record["metrics"]["setup_s"] > 1
    assert 0 <= record["metrics"]["connect_s"] <= 0.0041
    assert 8 * 400_000 / record["metrics"]["algbw_bps"] == pytest.approx(record["metrics"]["gst_median_s"])
    assert f"JCT {time_text(record['metrics']['jct_s'], measured=True)} after " in called.out
    assert "set-up: from the start of a script's first process to its first iteration" in called.out
    (row,) = csv.DictReader((folder / "out/results.csv").open(newline=""))
    assert float(row["setup_s"]) == record["metrics"]["setup_s"]
    assert record["loss"] == [3.0, 1.0]
    assert record["warmup"] == 2, "one is left to be measured"
    assert [trial.warmup for trial in load_run(folder / "out").trials] == [2]
    assert record["logged"] == {"loss": [[3.0, 2.0, 1.0]] * 2, "none": [[], []]}
    assert record["left_out"] == ["metrics.none: 'accuracy ([0-9.]+)' finds no number in any log"]
    assert record["slow_rows"] == (
        "rows of sums were made in Python on h1, because watcher.cpp is not compiled for PyTorch 2.12.1: steps of a "
        "small model take about 3 % longer"
    )
    assert f"\n    noted: {record['left_out'][0]}\n    noted: {record['slow_rows']}\n" in called.out
    assert record["collectives"][0]["count"] == 3
    assert all(link["theory_bytes"] > 1e6 for link in record["links"] if link["from"] != "s0")
    (wire,) = (check for check in record["fidelity"]["checks"] if check["name"] == "bytes on the wire")
    assert not wire["ok"]
    assert faults(record) == []
    page = (folder / "out/report.html").read_text()
    assert "How long did scripts wait for communication?" in page
    assert "finds no number in any log." in page


LATE = """
import json, os, socket, time
job = json.load(open(os.environ["TESTBED_RANK"]))
out = open(job["samples"], "w", buffering=1)
def say(kind, **said):
    out.write(json.dumps({"kind": kind, **said}) + "\\n")
time.sleep(1.0)  # as imports take
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if job["rank"] == 0:
    other, _ = socket.create_server(place).accept()
else:
    while True:
        try:
            other = socket.create_connection(place)
            break
        except OSError:
            time.sleep(0.01)
say("hello", rank=job["rank"], node=job["node"], name=job["name"], congestion_control="reno", time=time.monotonic())
for i in range(4):
    asked_s = time.monotonic()
    if job["rank"] == 1:
        other.sendall(bytes(250_000))
        other.recv(1)
    else:
        left = 250_000
        while left:
            left -= len(other.recv(left))
        other.sendall(b".")
    call = dict(seq=i, group=0, op="allreduce", dtype="float32", bytes=400_000, by="scheme", ranks=job["world"])
    say("call", asked_s=asked_s, begun_s=asked_s, done_s=time.monotonic(), waited_s=0.01, **call)
if job["rank"] == 1:
    say("failed", op="allreduce", group=0, seq=3, time=time.monotonic(), error="RuntimeError: no room")
say("done", max_rss_bytes=1000, wire_bytes=400_000, sent=None)
"""


@pytest.mark.lab
def test_a_scripts_queues_and_iterations_have_one_clock_and_a_caught_error_makes_it_invalid(
    folder: Path, bench: Bench
) -> None:
    (folder / "rank.py").write_text(LATE)
    arms = SPEC[SPEC.index("arms:") : SPEC.index("retries")]
    (outcome,) = bench.run(SPEC.replace(arms, "arms: [{topology: star(hosts=2), scheme: ring}]\n"), folder)
    record, jct_s, table = outcome.record, outcome.record["metrics"]["jct_s"], outcome.queues
    assert record["status"] == "done", record["error"]
    assert table is not None
    assert jct_s < record["duration_s"] - 1, "without the second that came before"
    assert (table["mean_bytes"] > 0).any()
    assert table["start_s"].between(0, jct_s).all()
    assert (table["start_s"] + table["window_s"]).max() < jct_s + 0.001
    (check,) = (one for one in record["fidelity"]["checks"] if one["name"] == "collectives")
    assert (check["ok"], check["value"]) == (False, 1.0)
    assert check["detail"] == "1 failed; rank 1: 1, the first was allreduce 3 of group 0 (RuntimeError: no room)"
    assert all("collectives" in one["spoilt_by"] for one in record["fidelity"]["numbers"].values())
    assert (record["gradient_sums"], record["iterations"]) == (3, 4)
    assert record["failed_collectives"] == [
        {"rank": 1, "host": "h1", "count": 1, "first": "allreduce 3 of group 0", "error": "RuntimeError: no room"}
    ]


MISTAKEN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1).expand(2**29 + 1) if dist.get_rank() == 1 else torch.ones(1))
"""
IN_A_HOOK = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 4))
def hook(_, bucket):
    whole = torch.ones(1).expand(2**29 + 1) if dist.get_rank() == 1 else bucket.buffer()
    return dist.all_reduce(whole, async_op=True).get_future().then(lambda future: future.value()[0])
model.register_comm_hook(None, hook)
model(torch.ones(2, 4)).sum().backward()
"""


@pytest.mark.lab
@pytest.mark.parametrize(
    "script", [MISTAKEN, pytest.param(IN_A_HOOK, marks=pytest.mark.rehearse)], ids=["plain", "DDP"]
)
def test_what_a_script_asks_for_and_no_rank_can_do_fails_the_trial_with_a_fix(
    folder: Path, testbed: Callable[..., Called], script: str
) -> None:
    """Even within C++, where DDP calls a hook; its import takes three times as long as all else."""
    (folder / "rank.py").write_text(script)
    (folder / "spec.yaml").write_text(SPEC)
    one_arm = "arms=[{topology: star(hosts=2), scheme: ring}]"
    called = testbed("run", str(folder / "spec.yaml"), "--out", str(folder / "out"), "--set", one_arm)
    assert called.code == 1, called.out + called.err
    assert (
        "ring-star2: FAILED: rank 1 on h1 ended with exit status 1: a collective of 2,147,483,652 bytes, and one may "
        "have 2,147,483,648"
    ) in called.out
    log = folder / "out/logs/ring-star2/h1.log"
    assert f"\n  fix: split it, as DDP does with bucket_cap_mb=25; all of its log: {log}\n" in called.out


SILENT = """
import json, os, time
job = json.load(open(os.environ["TESTBED_RANK"]))
if job["world"] == 2:
    print("Unable to locate sufficient 2 gpus", flush=True)
    raise SystemExit(0)
hello = dict(kind="hello", rank=job["rank"], node=job["node"], congestion_control="reno", time=time.monotonic())
missed = dict(kind="error", error="rank 1 on h1 has left", fix=None, elsewhere=True)
with open(job["samples"], "w") as out:
    for said in [hello] if job["rank"] == 1 else [hello, missed]:
        print(json.dumps(said), file=out)
raise SystemExit("no such shard" if job["rank"] == 1 else "the others have left")
"""


@pytest.mark.lab
def test_a_rank_that_ends_and_one_that_makes_no_group_are_named(folder: Path, testbed: Callable[..., Called]) -> None:
    """Ranks that miss another one say so, so the one that ended first is told even if it is noticed later."""
    (folder / "rank.py").write_text(SILENT)
    (folder / "spec.yaml").write_text(SPEC)
    arms = "arms=[{topology: star(hosts=2), scheme: ring}, {topology: star(hosts=3), scheme: ring}]"
    called = testbed("run", str(folder / "spec.yaml"), "--out", str(folder / "out"), "--set", arms)
    assert called.code == 1
    assert (
        "ring-star2: FAILED: h0 made no process group, so nothing of its script went along ring; its last words: "
        "Unable to locate sufficient 2 gpus\n"
    ) in called.out
    assert "ring-star3: FAILED: rank 1 on h1 ended with exit status 1\n    | no such shard\n" in called.out
