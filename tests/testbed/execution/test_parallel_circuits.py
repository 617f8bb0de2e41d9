"""Two rings of one stride in a real lab: each circuit carries what theory says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.bench import Bench
from tests.testbed.records import carried_what_the_forest_says

pytestmark = pytest.mark.lab

SPEC = """
name: parallel
links: {rate: 300 Gbit/s}
workload: {kind: profile, MODEL, iterations: 4, chunk: 4 KiB}
arms:
  - {topology: "patch_panel(servers=4,degree=4,rings=[1,1])", scheme: "multi_ring(strides=[1,3])", STRATEGY}
quiet: 0 s
"""
SUMS = ("model: vgg16, batch: 32, scale: 3000, compute: {mode: paced, pace: {32: 30 ms}}", "label: sums")
MESSAGES = (
    "model: dlrm, batch: 8192, scale: 3000, compute: {mode: paced, pace: {8192: 30 ms}}",
    "strategy: {e0: [0], e1: [1], e2: [2], e3: [3], rest: all}",
)


@pytest.mark.parametrize(("model", "strategy"), [SUMS, MESSAGES], ids=["sums", "messages"])
def test_every_circuit_carries_its_share(bench: Bench, tmp_path: Path, model: str, strategy: str) -> None:
    (outcome,) = bench.run(SPEC.replace("MODEL", model).replace("STRATEGY", strategy), tmp_path)
    assert outcome.record["status"] == "done", outcome.record["error"]
    assert outcome.record["sums"]["wrong_elements"] == 0
    carried_what_the_forest_says(outcome.record)
    assert all(link["theory_bytes"] for link in outcome.record["links"]), "no circuit is dark"
