"""A trace in a real lab: its ranks are scripts, whose bytes are accounted for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from testbed.base.errors import ChangedError, SpecError
from testbed.experiment import conditions
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.trial.inputs import check_unchanged
from testbed.workloads.trace import chakra, pytorch
from testbed.workloads.trace.graph import Collective, Kind, Node
from tests.ports import blocks

from ..bench import Bench

SPEC = """\
name: replayed
links: {rate: 100 Mbit/s}
workload: {kind: trace, file: x.%d.et, iterations: 3, scale: 10}
arms: [{topology: star(hosts=2), scheme: ring}]
retries: 0
quiet: 0 s
"""
COMPUTE_S, BYTES = 0.3, 12_500_000


def _write(folder: Path) -> None:
    computes = Node(1, "", Kind.COMP, duration_us=round(1e6 * COMPUTE_S))
    sums = Node(2, "", Kind.COMM_COLL, (1,), bytes=BYTES, collective=Collective.ALL_REDUCE)
    for rank in range(2):
        with (folder / f"x.{rank}.et").open("wb") as file:
            chakra.write(file, rank, [computes, sums], {})


def test_a_trial_depends_on_the_files_of_its_ranks(tmp_path: Path) -> None:
    """So a file that changes between planning and running is an error."""
    pytest.importorskip("google.protobuf")
    _write(tmp_path)
    (trial,) = trials(read(SPEC, "spec.yaml", tmp_path))
    assert sorted(trial.inputs) == ["x.0.et", "x.1.et"]
    check_unchanged(trial)
    (tmp_path / "x.1.et").write_bytes((tmp_path / "x.1.et").read_bytes() + b"\0")
    with pytest.raises(ChangedError, match=r"x\.1\.et was changed"):
        check_unchanged(trial)


def test_ranks_are_a_range_and_no_sweep(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    _write(tmp_path)
    (tmp_path / "x.2.et").write_bytes((tmp_path / "x.0.et").read_bytes())
    with pytest.raises(SpecError, match="hosts are 2") as told:
        trials(read(SPEC, "spec.yaml", tmp_path))
    assert told.value.fix.endswith("write ranks: 0..1")
    for first in (0, 1):
        (trial,) = trials(read(SPEC, "spec.yaml", tmp_path, [f"workload.ranks={first}..{first + 1}"]))
        assert trial.job.workload.program.words[-7:-5] == (str(first), "--iterations")


def test_ranks_that_wait_share_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.protobuf")
    _write(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert not conditions.warnings(trials(read(SPEC, "spec.yaml", tmp_path)))


@pytest.mark.lab
def test_a_sum_takes_its_bytes_over_the_rate_after_what_is_computed(bench: Bench, tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    _write(tmp_path)
    (outcome,) = bench.run(SPEC, tmp_path)
    record = outcome.record
    assert record["iterations"] == 3
    assert [(row["op"], row["bytes"], row["by"]) for row in record["collectives"] if row["op"] == "allreduce"] == [
        ("allreduce", BYTES // 10, "scheme")
    ]
    assert [len(times_s) for times_s in record["logged"]["iteration_s"]] == [3, 3]
    gst_s = record["metrics"]["gst_median_s"]
    assert gst_s == pytest.approx(8 * BYTES / 10 / (1e8 / 10) * 1.04, rel=0.1)
    assert record["metrics"]["iteration_median_s"] == pytest.approx(COMPUTE_S + gst_s, rel=0.1)


@pytest.mark.lab
def test_the_more_urgent_of_two_large_messages_comes_first(bench: Bench, tmp_path: Path) -> None:
    """Both leave when their receiver asks for them, and only the sender's file has the priority."""
    pytest.importorskip("google.protobuf")
    first, urgent = 1_000_000, 1_200_000
    for rank, kind in enumerate((Kind.COMM_SEND, Kind.COMM_RECV)):
        nodes = [
            Node(number, "", kind, bytes=size, peer=1 - rank, tag=number, priority=0 if rank else priority)
            for number, size, priority in ((1, first, 0), (2, urgent, 1))
        ]
        with (tmp_path / f"x.{rank}.et").open("wb") as file:
            chakra.write(file, rank, nodes, {})
    (outcome,) = bench.run(SPEC.replace("scale: 10", "scale: 1"), tmp_path)
    assert outcome.record["status"] == "done", outcome.record["error"]
    assert outcome.collectives is not None
    kinds = outcome.record["collectives"]
    came = outcome.collectives[[kinds[kind]["op"] == "recv" for kind in outcome.collectives["kind"]]]
    order = [kinds[kind]["bytes"] for kind in came.sort_values("done_s")["kind"]]
    assert order == 3 * [urgent, first]


DDP = """
import torch, torch.distributed as dist
from torch.nn import Linear, Sequential
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ExecutionTraceObserver
dist.init_process_group("gloo")
layers = Sequential(Linear(600, 500), Linear(500, 700), Linear(700, 3))
model = DistributedDataParallel(layers, bucket_cap_mb=1)
observer = ExecutionTraceObserver()
observer.register_callback(f"et.{dist.get_rank()}.json")
observer.start()
for _ in range(2):
    model(torch.ones(8, 600)).sum().backward()
observer.stop()
observer.unregister_callback()
dist.destroy_process_group()
"""
SCRIPT = """\
name: program
links: {rate: 100 Mbit/s}
workload: {kind: command, command: python ddp.py, inputs: [ddp.py]}
arms: [{topology: star(hosts=2), scheme: ring}]
retries: 0
quiet: 0 s
"""


@pytest.mark.lab
def test_a_trace_of_ddp_has_the_sums_that_a_trial_of_the_program_counts(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "ddp.py").write_text(DDP)
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(next(blocks(1)))}
    given |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([sys.executable, "-P", "ddp.py"], cwd=tmp_path, env={**os.environ, **given, "RANK": str(rank)})
        for rank in range(2)
    ]
    assert [process.wait(60) for process in ranks] == [0, 0]
    (outcome,) = bench.run(SCRIPT, tmp_path)
    counted = Counter({row["bytes"]: row["count"] for row in outcome.record["collectives"] if row["op"] == "allreduce"})
    assert len(counted) > 1  # buckets of several sizes
    for rank in range(2):
        read, _ = pytorch.read((tmp_path / f"et.{rank}.json").read_bytes(), "et.json")
        assert Counter(node.bytes for node in read.nodes if node.collective == Collective.ALL_REDUCE) == counted


def _reported(number: int, group: str, elements: int) -> dict[str, Any]:
    """The node of an AllReduce, as NCCL reports it."""
    told = {"collective_name": "allreduce", "in_msg_nelems": elements, "dtype": "Float", "pg_name": group}
    attributes = [{"name": name, "value": value} for name, value in told.items()]
    return {"id": number, "name": "record_param_comms", "ctrl_deps": 1, "attrs": attributes}


def _host_traces(folder: Path, ranks: int) -> None:
    """As PyTorch has it, each rank tells only the groups that it is in: that of all, which lists none, and a pair."""
    for rank in range(ranks):
        name, pair = str(1 + rank // 2), [rank // 2 * 2, rank // 2 * 2 + 1]
        told = [{"pg_name": "0", "ranks": [], "group_size": ranks}, {"pg_name": name, "ranks": pair, "group_size": 2}]
        nodes = [
            {"id": 2, "name": pytorch.GROUPS, "ctrl_deps": 1, "inputs": {"values": [json.dumps(told)]}},
            *(_reported(3, "0", 100_000), _reported(4, name, 200_000), _reported(5, "0", 1000)),
        ]
        (folder / f"x.{rank}.json").write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}))


OF_PAIRS = SPEC.replace("x.%d.et", "x.%d.json").replace("hosts=2", "hosts=4")


@pytest.mark.lab
def test_ranks_that_tell_only_groups_of_their_own_play_all_of_them(bench: Bench, tmp_path: Path) -> None:
    _host_traces(tmp_path, 4)
    (outcome,) = bench.run(OF_PAIRS, tmp_path)
    assert outcome.record["status"] == "done", outcome.record["error"]
    sums = [row for row in outcome.record["collectives"] if row["op"] == "allreduce"]
    assert sorted((row["bytes"], row["ranks"], row["count"]) for row in sums) == [
        (400, 4, 3),
        (40_000, 4, 3),
        (80_000, 2, 6),
    ]
    beyond = [link["bytes"] - link["theory_bytes"] - link["extra_bytes"] for link in outcome.record["links"]]
    assert 0 <= min(beyond) < 1500, beyond  # others may have more: ranks try to connect until their neighbours start


def test_groups_of_ranks_that_are_not_played_count_only_if_one_that_is_takes_part(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    sums = Node(1, "", Kind.COMM_COLL, bytes=64, collective=Collective.ALL_REDUCE)
    for rank in range(4):
        with (tmp_path / f"x.{rank}.et").open("wb") as file:
            chakra.write(file, rank, [sums._replace(group="a" if rank < 2 else "b")], {})
    (tmp_path / "unused.json").write_text('{"a": [0, 1], "b": [2, 3], "all": [0, 1, 2, 3]}')
    (tmp_path / "used.json").write_text('{"b": [1, 2, 3]}')
    (trial,) = trials(read(SPEC, "spec.yaml", tmp_path, ["workload.groups=unused.json", "workload.ranks=2..3"]))
    assert trial.job.workload.traced(tmp_path, 2).groups == {"b": (0, 1)}
    with pytest.raises(SpecError, match="group b has rank 1, and the ranks are 2 to 3"):
        trials(read(SPEC, "spec.yaml", tmp_path, ["workload.groups=used.json", "workload.ranks=2..3"]))


def test_ranks_that_call_different_groups_the_same_are_refused(tmp_path: Path) -> None:
    _host_traces(tmp_path, 4)
    other = (tmp_path / "x.2.json").read_text().replace('\\"pg_name\\": \\"2\\"', '\\"pg_name\\": \\"1\\"')
    (tmp_path / "x.2.json").write_text(other)
    with pytest.raises(SpecError, match=r"x\.2\.json: group 1 has other ranks than in files before"):
        trials(read(OF_PAIRS, "spec.yaml", tmp_path))


@pytest.mark.rehearse
@pytest.mark.lab
@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("timeout: 6 s\n", "send of 40000000 bytes to rank"),
        (
            "perturb: [{kind: kill, nodes: [h1], at: 15 s}]\n",
            "rank 1 on h1 was killed by SIGKILL at node 1 (send of 40000000 bytes",
        ),
    ],
)
def test_ranks_that_wait_or_die_end_the_trial_soon(bench: Bench, tmp_path: Path, more: str, told: str) -> None:
    """Each rank receives when its own send is done, and a send of that size waits for the receive."""
    pytest.importorskip("google.protobuf")
    for rank in range(2):
        sent = Node(1, "", Kind.COMM_SEND, bytes=40_000_000, peer=1 - rank, tag=7)
        came = Node(2, "", Kind.COMM_RECV, (1,), bytes=40_000_000, peer=1 - rank, tag=7)
        with (tmp_path / f"x.{rank}.et").open("wb") as file:
            chakra.write(file, rank, [sent, came], {})
    begun_s = time.monotonic()
    (outcome,) = bench.run(SPEC + more, tmp_path)
    assert (outcome.record["status"], told in outcome.record["error"]) == ("failed", True), outcome.record["error"]
    assert time.monotonic() - begun_s < 40
