"""A run whose workers compute as fast as they can: on GPUs where PyTorch sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from .test_run import call

SPEC = """
name: real
links: {rate: 200 Mbit/s}
workload: {model: lenet5, dataset: digits, batch: [4], iterations: 4, compute: {mode: real}}
arms: [{topology: star(hosts=2), scheme: ring}]
retries: 0
quiet: 0 s
"""


@pytest.mark.lab
def test_every_worker_trains_where_pytorch_computes_fastest(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    done = call(tmp_path, "run", "spec.yaml", "--out", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (tmp_path / "out/trials").iterdir()
    assert json.loads(path.read_text())["accuracy"]["weights_equal"]
    (lab,) = json.loads((tmp_path / "out/env.json").read_text())["lab"].values()
    devices = lab["devices"]
    assert sum(devices.values()) == 2
    assert all(name.startswith("cuda:" if torch.cuda.is_available() else "cpu") for name in devices)
