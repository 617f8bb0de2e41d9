"""Switches that add, end to end: real packets to aggregators in the switches' namespaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..bench import Bench
from ..records import check

SPEC = """
name: ina
links: {rate: 200 Mbit/s}
workload:
  model: resnet8
  dataset: digits
  batch: 4
  iterations: 2
  chunk: 4 KiB
  compute: none
arms:
"""
TWO_RACKS = '"spine_leaf(racks=2,hosts_per_rack=2,spines=1,ina=INA)"'


def run(bench: Bench, folder: Path, arms: list[tuple[str, str]]) -> list[dict[str, Any]]:
    lines = [f"  - {{scheme: {scheme}, topology: {TWO_RACKS.replace('INA', ina)}}}\n" for scheme, ina in arms]
    return [outcome.record for outcome in bench.run(SPEC + "".join(lines), folder)]


@pytest.mark.lab
def test_every_scheme_trains_as_single_process_sgd_does(bench: Bench, tmp_path: Path) -> None:
    """Rina with all of its switches is in ``test_nodes_die.py``."""
    records = run(bench, tmp_path, [("switchml(slots=8)", "all"), ("atp", "[leaf1]"), ("rina", "[leaf0]")])
    assert len(records) == 3
    for record in records:
        assert record["status"] == "done", record["error"]
        assert record["accuracy"]["weights_error"] < 1e-4
        wire = check(record, "bytes on the wire")
        assert wire["ok"], wire
        assert 0 < check(record, "aggregators")["value"] < 1
        switches = {link["from"]: link for link in record["links"] if link["from"].startswith(("leaf", "spine"))}
        assert any(link["bytes"] > 0 for link in switches.values())


@pytest.mark.lab
def test_what_does_not_fit_32_bits_fails_the_trial(bench: Bench, tmp_path: Path) -> None:
    (record,) = run(bench, tmp_path, [("rina(scale=1e13)", "all")])
    assert record["status"] == "failed"
    assert "times the scale 1e+13 does not fit 32 bits" in record["error"]
    assert "fix: give the scheme a smaller scale" in record["error"]
