"""Two runs at once on one machine: the same addresses, the same ports, and neither sees the other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

SPEC = """\
name: one_of_two
links: {rate: 20 Mbit/s}
workload: {model: lenet5, dataset: digits, batch: [2], iterations: 2, compute: none}
arms:
  - {topology: star(hosts=3), scheme: RING}
timeout: 60 s
"""
PATIENCE_S = 180.0


def test_both_train_as_if_alone(tmp_path: Path) -> None:
    runs = {}
    for scheme in ("ring", "ps"):
        (tmp_path / f"{scheme}.yaml").write_text(SPEC.replace("RING", scheme))
        command = [sys.executable, "-m", "testbed", "run", f"{scheme}.yaml", "--out", scheme]
        runs[scheme] = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for process in runs.values():
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, out.decode()
    records = {
        scheme: json.loads((tmp_path / scheme / "trials" / f"{scheme}-star3-b2.json").read_text()) for scheme in runs
    }
    begun, ended = zip(*((one["started"], one["duration_s"]) for one in records.values()), strict=True)
    assert begun
    assert min(ended) > 5  # two synchronisations of 7 s each: they were in their labs together
    for record in records.values():
        assert record["status"] == "done"
        assert record["accuracy"]["weights_equal"]
        checks = {check["name"]: check for check in record["fidelity"]["checks"]}
        assert checks["bytes on the wire"]["ok"], checks  # nothing of the other's was counted
        assert checks["read back"]["ok"], checks
        assert checks["drops"]["ok"], checks
    ports = [{probe["port_address"] for probe in record["probes"]} for record in records.values()]
    assert ports[0] == ports[1] == {"10.0.0.1", "10.0.0.2", "10.0.0.3"}
