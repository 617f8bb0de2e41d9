"""Two rings of one stride in a real lab: each circuit carries what theory says, and so all panels carry the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.bench import Bench
from tests.testbed.records import carried_what_the_forest_says

pytestmark = pytest.mark.lab

SPEC = """
name: parallel
links: {rate: 100 Mbit/s}
workload:
  {kind: profile, model: resnet50, batch: 32, iterations: 4, scale: 100, compute: {mode: paced, pace: {32: 30 ms}}}
arms:
  - {topology: "patch_panel(servers=4,degree=4,rings=[1,1])", scheme: "multi_ring(strides=[1,3])"}
quiet: 0 s
"""


def test_both_circuits_carry_half(bench: Bench, tmp_path: Path) -> None:
    (outcome,) = bench.run(SPEC, tmp_path)
    assert outcome.record["status"] == "done", outcome.record["error"]
    assert outcome.record["sums"]["wrong_elements"] == 0
    carried_what_the_forest_says(outcome.record)
    assert len({link["theory_bytes"] for link in outcome.record["links"]}) == 1
