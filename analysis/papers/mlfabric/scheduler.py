"""Time that MLfabric's scheduler takes: it is measured on the machine that makes the page, and no run is needed."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.analysis.papers.claim import Finding, Row, Runs
from testbed.analysis.papers.evidence import Measured
from testbed.analysis.papers.judging import within
from testbed.analysis.theory.scheduler_batches import PAPER_MS, measured_ms
from testbed.base.processor import cpu_model

REPEATS = 2
"""Number of batches of each size, with each kind of rates."""
MOST_S = 6.0
"""CPU time (s) at most for batches of one size. All take some 8 s, and less than 20 s on a machine of half the
speed."""


GOAL = 0.1
"""Share of the paper's times that this scheduler is to reach. The claim does not hang on it."""


def scheduler_time(_: Runs) -> Finding:
    """Find the time that a batch takes, with a replica, over what the paper's scheduler takes."""
    times_ms = {count: measured_ms(count, REPEATS, MOST_S) for count in PAPER_MS}
    rows = [_row(count, times_ms[count], paper_ms) for count, paper_ms in PAPER_MS.items()]
    goals = [_goal(count, times_ms[count], GOAL * paper_ms) for count, paper_ms in PAPER_MS.items()]
    missed = [row.name for row in goals if row.interval is not None and row.interval.value > 1]
    told = f"Missed: {'; '.join(missed)}." if missed else "All are reached."
    return Finding(
        (*rows, *goals),
        tuple(within(f"{row.name}: at most the paper's", row, high=1.0) for row in rows),
        (
            f"CPU time of one process on this machine ({cpu_model()}), which made this page; no links are emulated. "
            "The paper's machine is not known. Batches are as section 7 describes them, with the rates of N2 and N3, "
            "an aggregator for five workers and a replica. benchmarks/mlfabric_scheduler.py repeats them more often.",
            f"The goals are ours, a tenth of the paper's times, and do not decide the claim. {told}",
        ),
    )


def _row(count: int, times_ms: Sequence[float], paper_ms: float) -> Row:
    return Row(f"scheduler's time, {count:,} updates, over {paper_ms:g} ms", "x", 1.0, ours=_over(times_ms, paper_ms))


def _goal(count: int, times_ms: Sequence[float], goal_ms: float) -> Row:
    return Row(f"{count:,} updates, over the goal of {goal_ms:g} ms", "x", theory=1.0, ours=_over(times_ms, goal_ms))


def _over(times_ms: Sequence[float], limit_ms: float) -> Measured:
    return Measured(tuple(time_ms / limit_ms for time_ms in times_ms), "batches", len(times_ms), len(times_ms))
