"""A trace in a real lab: its ranks are scripts, whose bytes are accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.mark.lab
def test_a_sum_takes_its_bytes_over_the_rate_after_what_is_computed(bench: Bench, tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    computes = Node(1, "", Kind.COMP, duration_us=round(1e6 * COMPUTE_S))
    sums = Node(2, "", Kind.COMM_COLL, (1,), bytes=BYTES, collective=Collective.ALL_REDUCE)
    for rank in range(2):
        with (tmp_path / f"x.{rank}.et").open("wb") as file:
            chakra.write(file, rank, [computes, sums], {})
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
