"""Nesterov's momentum in a real lab, where workers take the step, where a server does, and where a scheduler plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.bench import Bench

pytestmark = pytest.mark.lab

SPEC = """
name: nesterov
links: {rate: 1 Gbit/s}
workload:
  model: resnet8
  dataset: digits
  batch: 4
  iterations: 4
  learning_rate: 0.05
  momentum: 0.5
  optimiser: nesterov
  compute: {mode: paced, pace: {4: 20 ms}}
arms:
  - {topology: star(hosts=3), scheme: ring}
  - {topology: star(hosts=3), scheme: async_ps}
  - {topology: star(hosts=4), scheme: mlfabric_s}
quiet: 0 s
"""


def test_weights_are_those_of_the_reference(bench: Bench, tmp_path: Path) -> None:
    outcomes = bench.run(SPEC, tmp_path)
    assert len(outcomes) == 3
    for outcome in outcomes:
        record = outcome.record
        assert (record["status"], record["error"]) == ("done", None)
        accuracy = record["accuracy"]
        assert accuracy["weights_equal"]
        assert accuracy["training_error"] <= accuracy["training_allowed"]
