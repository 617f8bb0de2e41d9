"""Switches that add, end to end: real packets to aggregators in the switches' namespaces."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

SPEC = """
name: ina
links: {rate: 1 Gbit/s}
workload:
  model: lenet5
  dataset: digits
  batch: 4
  iterations: 2
  chunk: 32 KiB
  compute: none
arms:
"""
TWO_RACKS = '"spine_leaf(racks=2,hosts_per_rack=2,spines=1,ina=INA)"'


def run(folder: Path, arms: list[tuple[str, str]]) -> subprocess.CompletedProcess[str]:
    lines = [f"  - {{scheme: {scheme}, topology: {TWO_RACKS.replace('INA', ina)}}}\n" for scheme, ina in arms]
    (folder / "ina.yaml").write_text(SPEC + "".join(lines))
    command = [sys.executable, "-m", "testbed", "run", "ina.yaml", "--out", "out"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.lab
def test_every_scheme_trains_as_single_process_sgd_does(tmp_path: Path) -> None:
    done = run(tmp_path, [("switchml(slots=8)", "all"), ("atp", "[leaf1]"), ("rina", "all"), ("rina", "[leaf0]")])
    assert done.returncode == 0, done.stderr
    results = pd.read_csv(tmp_path / "out" / "results.csv")
    assert len(results) == 4
    assert (results["weights_error"] < 1e-4).all()
    records = [json.loads(path.read_text()) for path in (tmp_path / "out" / "trials").glob("*.json")]
    for record in records:
        checks = {check["name"]: check for check in record["fidelity"]["checks"]}
        assert checks["bytes on the wire"]["ok"], checks["bytes on the wire"]
        assert 0 < checks["aggregators"]["value"] < 1
        switches = {link["from"]: link for link in record["links"] if link["from"].startswith(("leaf", "spine"))}
        assert any(link["bytes"] > 0 for link in switches.values())


@pytest.mark.lab
def test_what_does_not_fit_32_bits_fails_the_trial(tmp_path: Path) -> None:
    done = run(tmp_path, [("rina(scale=1e13)", "all")])
    assert done.returncode == 1
    assert "times the scale 1e+13 does not fit 32 bits" in done.stderr + done.stdout
    assert "fix: give the scheme a smaller scale" in done.stderr + done.stdout
