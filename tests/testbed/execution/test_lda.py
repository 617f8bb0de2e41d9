"""Topic models in a real lab: what comes of them is what one process comes to, whether or not workers wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..bench import Bench

pytestmark = pytest.mark.lab

SPEC = """
name: lda
links: {rate: 200 Mbit/s}
workload:
  {kind: lda, corpus: python_reference, documents: 40, topics: 5, iterations: 4, compute: {mode: paced, pace: 0.2 s}}
arms:
  - {topology: star(hosts=4), scheme: ps}
  - {topology: "star(hosts=4,ina=all)", scheme: atp}
  - {topology: star(hosts=4), scheme: async_ps}
  - {topology: star(hosts=5), scheme: "mlfabric_a(delay_bound=3,aggregators=1)"}
  - topology: star(hosts=6)
    scheme: mlfabric_a(delay_bound=3,aggregators=1,divergence_updates=2)
    perturb: [{kind: kill, nodes: [h1.daemon], at: 0.3 s}]
retries: 0
quiet: 0 s
"""


def test_counts_are_those_of_one_process(bench: Bench, tmp_path: Path) -> None:
    together, switched, alone, scheduled, lost = bench.run(SPEC, tmp_path)
    assert lost.record["status"] == "done", lost.record["error"]
    assert [loss["node"] for loss in lost.record["failover"]["losses"]] == ["h1"]
    assert lost.record["accuracy"]["weights_error"] == lost.record["metrics"]["replica_error"] == 0
    for one in (together, switched, alone, scheduled):
        assert one.record["status"] == "done", one.record["error"]
        found = one.record["accuracy"]
        assert found["training_error"] == found["weights_error"] == found["training_allowed"] == 0
        assert found["weights_equal"] is True
        assert found["curve_of"] == "log_likelihood"
        assert [iteration for iteration, _ in found["curve"]] == [0, 1, 2, 3]
        assert found["curve"][-1][1] == found["log_likelihood"]
        assert -8 < found["log_likelihood"] < -5
        assert len(found["curve_s"]) == 4
        first, last = one.record["loss"]
        assert 4 < last < first < 8
    assert together.record["world"] == 4
    assert switched.record["accuracy"]["curve"] == together.record["accuracy"]["curve"]
    assert alone.record["world"] == 3
    assert together.record["accuracy"]["reference"] == "a single process that samples every shard"
    assert alone.record["metrics"]["staleness_max"] > 0
    moved = scheduled.transfers
    assert moved is not None
    assert moved["members"].max() > 1, "counts are summed on the way"
