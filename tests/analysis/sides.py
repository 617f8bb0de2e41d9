"""Sides of comparisons, made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from testbed.analysis.cell import Cell
from testbed.analysis.comparing.measured import Measured, Side

CONDITIONS = {
    "congestion_control": "reno",
    "cpu.cores": 2,
    "cpu.model": "AMD EPYC",
    "kernel": "6.18.5",
    "lab": "netns",
    "links.delay_s": 0.0,
    "links.rate_bps": 200_000_000,
    "machine": "x86_64",
    "packages.numpy": "2.4.6",
    "packages.torch": "2.13.0",
    "perturb": "[]",
    "python": "3.11.2",
    "schema": 1,
    "sysctls.net.ipv4.tcp_rmem": "4096 131072 6291456",
}
ARM = {"topology": "star(hosts=3)", "perturb": [], "scheme": "ring"}
RING = Cell("ring", 16)


def measured(cell: Cell, repeat: int, gst_s: float, verdict: str = "VALID", noise: float = 1.0) -> Measured:
    """A trial of 20 iterations, whose JCT is GST's and 2 s more, and whose 1,000 samples are counted."""
    jct_s = (20 * gst_s + 2.0) * noise
    values = {"gst": gst_s, "jct": jct_s, "throughput": 1000 / jct_s}
    name = f"{cell.label}-b{cell.batch}-r{repeat + 1}"
    started = f"2026-11-21T09:{repeat:02d}:00+00:00"
    if verdict == "FAILED":
        return Measured(name, cell, repeat, started, verdict, {}, {})
    return Measured(name, cell, repeat, started, verdict, values, dict.fromkeys(values, verdict), (gst_s, gst_s * 1.01))


def side(name: str, gst_s: dict[Cell, Sequence[float]], **conditions: object) -> Side:
    """A run with those GSTs of its trials, all VALID."""
    trials = [measured(cell, i, value) for cell, values in gst_s.items() for i, value in enumerate(values)]
    arms = {cell.label: dict(ARM) for cell in gst_s}
    changed = {key.replace("__", "."): value for key, value in conditions.items()}
    return Side(name, Path("/runs") / name, "mine", CONDITIONS | changed, arms, tuple(trials))  # type: ignore[operator]


def about(gst_s: float, count: int = 10, spread: float = 0.002, seed: int = 1) -> list[float]:
    """GSTs that scatter as on an idle machine."""
    return list(np.random.default_rng(seed).normal(gst_s, gst_s * spread, count))


def with_verdicts(whole: Side, *verdicts: str) -> Side:
    """The same with other verdicts of its first trials."""
    changed = [
        measured(one.cell, one.repeat, one.values["gst"], verdict)
        for one, verdict in zip(whole.trials, verdicts, strict=False)
    ]
    return replace(whole, trials=(*changed, *whole.trials[len(verdicts) :]))
