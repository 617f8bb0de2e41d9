"""Two AllReduce groups at once in a real lab: sums, bytes on each link, and the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.base.errors import SpecError
from tests.testbed.bench import Bench

pytestmark = pytest.mark.lab

SPEC = """
name: groups
links: {rate: 20 Gbit/s}
workload:
  {kind: profile, model: resnet50, batch: 32, iterations: 4, scale: 100, compute: {mode: paced, pace: {32: 30 ms}}}
arms:
  - {topology: star(hosts=5), scheme: "ring(members=[[0,1,2],[2,3,4]])"}
quiet: 0 s
"""


def test_two_groups_sum_their_parts(bench: Bench, tmp_path: Path) -> None:
    (outcome,) = bench.run(SPEC, tmp_path)
    assert outcome.record["status"] == "done", outcome.record["error"]
    assert outcome.samples is not None
    checks = {one["name"]: one for one in outcome.record["fidelity"]["checks"]}
    assert checks["bytes on the wire"]["ok"]
    assert checks["lower bound"]["ok"]
    sums = outcome.record["sums"]
    assert sums["checked_elements"] > 0
    assert sums["wrong_elements"] == 0


def test_no_model_is_trained_by_groups(bench: Bench, tmp_path: Path) -> None:
    trained = "{model: lenet5, dataset: digits, batch: 4, iterations: 4}\n"
    with pytest.raises(SpecError, match="sums parts of the gradient among some workers, whose weights would differ"):
        bench.run(SPEC.replace(SPEC[SPEC.index("{kind") : SPEC.index("arms")], trained), tmp_path)
