"""Baselines' files, made up."""

from __future__ import annotations

from pathlib import Path

from testbed.analysis.cell import Cell
from testbed.analysis.comparing.measured import Measured, Side, write_baseline

CONDITIONS: dict[str, str | int | float | bool | None] = {
    "cpu.cores": 2,
    "cpu.model": "EPYC",
    "kernel": "6.1",
    "lab": "netns",
    "links.rate_bps": 200_000_000,
    "schema": 1,
}


def write_side(
    path: Path,
    gst_s: float = 0.2,
    *,
    label: str = "ring",
    verdict: str = "VALID",
    topology: str = "star(hosts=3)",
    **changes: str | int,
) -> None:
    """A baseline of ten repeats of one cell, with ``changes`` of its conditions: ``links__rate_bps=1``."""
    cell = Cell(label, 2)
    trials = tuple(
        Measured(
            *(f"{label}-r{i}", cell, i, f"2026-11-21T09:0{i}:00", verdict),
            values={"gst": gst_s + i / 1000},
            verdicts={"gst": verdict},
        )
        for i in range(10)
    )
    arms = {label: {"topology": topology, "perturb": [], "scheme": "ring"}}
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    write_baseline(Side(str(path), path, "small", CONDITIONS | changed, arms, trials), path)
