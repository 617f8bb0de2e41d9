"""A trace in a real lab: its ranks are scripts, whose bytes are accounted for."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from testbed.base.errors import ChangedError, SpecError
from testbed.experiment import conditions
from testbed.experiment.expand import trials
from testbed.spec import read
from testbed.trial.inputs import check_unchanged
from testbed.workloads.trace import chakra
from testbed.workloads.trace.graph import Collective, Kind, Node

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
