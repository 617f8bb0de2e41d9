"""Servers that hold some operators of a model each and train together, in a real lab: weights, losses, sums, bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.bench import Bench

pytestmark = pytest.mark.lab

SPEC = """
name: hybrid
links: {rate: 100 Mbit/s}
workload:
  model: dlrm_tiny
  dataset: clicks
  batch: 16
  iterations: 5
  compute: {mode: paced, pace: {16: 0.2 s}}
arms:
  - topology: "patch_panel(servers=4,degree=4,rings=[1,1])"
    scheme: ring
    strategy: {e0: [0], e1: [1], e2: [2, 3], e3: [3], e4: [0], e5: [1], e6: [2], e7: [3], dense2: [0, 2], rest: all}
quiet: 0 s
"""


def test_a_placed_model_is_trained_as_by_one_process(bench: Bench, tmp_path: Path) -> None:
    """Over panels: neighbours have two parallel circuits, and what servers 0 and 2, and 1 and 3, send each other is
    forwarded by another server."""
    (outcome,) = bench.run(SPEC, tmp_path)
    record, samples = outcome.record, outcome.samples
    assert record["status"] == "done", record["error"]
    assert record["accuracy"]["weights_equal"]
    assert record["accuracy"]["training_error"] <= record["accuracy"]["training_allowed"]
    assert record["sums"]["checked_sums"] == 5
    assert record["loss"][1] < record["loss"][0]
    assert samples is not None
    with_loss = samples.groupby("rank")["loss"].apply(lambda one: one.notna().all())
    assert with_loss.to_dict() == {0: True, 1: False, 2: True, 3: False}  # who holds dense2
    checks = {one["name"]: one for one in record["fidelity"]["checks"]}
    assert checks["bytes on the wire"]["ok"]
    assert checks["lower bound"]["ok"]
