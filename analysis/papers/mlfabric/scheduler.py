"""How long MLfabric's scheduler takes: it is timed on the machine that makes the page, and no run is needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.papers.claim import Finding, Row, Runs
from analysis.papers.evidence import Measured
from analysis.papers.judging import within
from analysis.scheduler_batches import PAPER_MS, measured_ms
from testbed.base.processor import cpu_model

REPEATS = 2
"""Of batches of each size, with each kind of rates."""
GOALS_MS = {10: 0.5, 100: 3.0, 500: 44.0, 1000: 146.0}
"""By the number of updates, a tenth of the paper's times."""
MOST_S = 6.0
"""Of CPU time, for batches of one size. All take some 8 s, and less than 20 s on a machine of half the speed."""


def scheduler_time(runs: Runs) -> Finding:
    """What a batch takes, with a replica, over what the paper's scheduler takes."""
    del runs  # nothing of a run is looked at
    rows = [_row(count, paper_ms) for count, paper_ms in PAPER_MS.items()]
    return Finding(
        tuple(rows),
        tuple(within(f"{row.name}: at most the paper's", row, high=1.0) for row in rows),
        (
            f"CPU time of one process on this machine ({cpu_model()}), which made this page; no links are emulated. "
            "The paper's machine is not known. Batches are as section 7 describes them, with the rates of N2 and N3, "
            "an aggregator for five workers and a replica. benchmarks/mlfabric_scheduler.py repeats them more often.",
            f"{_goals(rows)} These are ours, and decide nothing here.",
        ),
    )


def _goals(rows: Sequence[Row]) -> str:
    """Which of the project's own goals are reached."""
    told = []
    for (count, paper_ms), row in zip(PAPER_MS.items(), rows, strict=True):
        assert row.ours is not None
        median_ms = paper_ms * float(np.median(row.ours.samples))
        told.append(f"{GOALS_MS[count]:g} ms for {count:,} updates (here {median_ms:.3g} ms)")
    return f"Goals are {', '.join(told)}."


def _row(count: int, paper_ms: float) -> Row:
    samples = tuple(took_ms / paper_ms for took_ms in measured_ms(count, REPEATS, MOST_S))
    measured = Measured(samples, "batches", len(samples), len(samples))
    return Row(f"scheduler's time, {count:,} updates, over {paper_ms:g} ms", "x", 1.0, None, measured)
