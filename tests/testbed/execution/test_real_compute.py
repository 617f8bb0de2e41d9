"""A run whose workers compute as fast as they can: on GPUs where PyTorch sees them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ..bench import Bench

SPEC = """
name: real
links: {rate: 200 Mbit/s}
workload: {model: resnet8, dataset: digits, batch: [4], iterations: 4, compute: {mode: real}}
arms: [{topology: star(hosts=2), scheme: ring}]
retries: 0
quiet: 0 s
"""


@pytest.mark.lab
def test_every_worker_trains_where_pytorch_computes_fastest(bench: Bench, tmp_path: Path) -> None:
    (outcome,) = bench.run(SPEC, tmp_path)
    assert outcome.record["status"] == "done", outcome.record["error"]
    assert outcome.record["accuracy"]["weights_equal"]
    devices = outcome.lab["devices"]
    assert sum(devices.values()) == 2
    assert all(name.startswith("cuda:" if torch.cuda.is_available() else "cpu") for name in devices)
