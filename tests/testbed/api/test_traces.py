"""Traces that are made of an experiment's schemes."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.api.traces import export

SPEC = """
name: swept
links: {rate: [50 Mbit/s, 100 Mbit/s]}
workload: {kind: profile, model: lenet5, batch: [2, 4], iterations: 2, compute: none}
arms: [{label: ring, topology: star(hosts=3), scheme: ring}]
"""


@pytest.mark.parametrize(
    ("points", "written", "told"),
    [
        (
            [],
            "ring-b2-rate50Mbit-s",
            "the first of 4 points is written, ring-b2-rate50Mbit-s; for another one: --point links.rate=VALUE "
            "--point workload.batch=VALUE",
        ),
        (
            ["rate=100 Mbit/s"],
            "ring-b2-rate100Mbit-s",
            "the first of 2 points is written, ring-b2-rate100Mbit-s; for another one: --point workload.batch=VALUE",
        ),
        (["rate=100 Mbit/s", "batch=4"], "ring-b4-rate100Mbit-s", ""),
    ],
)
def test_of_a_sweep_it_says_which_point_is_written(tmp_path: Path, points: list[str], written: str, told: str) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    found = export(spec, "ring", tmp_path / "out", points=points)
    assert (found["trial"], found["point"]) == (written, told)
    assert (tmp_path / "out" / f"{written}.0.et").exists()
