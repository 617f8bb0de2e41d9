"""Topic models: iterations and time to the same likelihood."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs
from testbed.analysis.papers.evidence import measure, measure_means
from testbed.analysis.papers.judging import near
from testbed.analysis.papers.mlfabric.ideals import MTU_BYTES, Asked, ring_of, round_s
from testbed.analysis.papers.mlfabric.rounds import ITERATIONS, LEVELS, RING, TIME, reached_over, rounds_s
from testbed.workloads.sync.cost import goodput

LDA = Experiment("mlfabric/lda.yaml", (), ("repeats=3", "workload.iterations=150"))
CONVERGED = {"A-30": (188, 139), "A-60": (239, 169), "async": (300, 1080)}
"""Iterations and seconds until the topic model has converged, by arm."""
CONVERGED_RING = (145, 182)
CLOSE = 0.25
OURS = 12
"""Workers of the spec."""
BOUNDS = {"A-30": 12, "A-60": 24}
ROUNDS = 13
"""Iterations of the spec."""
IDEAL = Asked(
    "mlfabric_a(delay_bound=12)",
    "star(hosts=14)",
    size_bytes=4 * 50 * 2079,
    rate_bps=35.5e6,
    pace_s=0.2,
    rounds=ROUNDS,
    compute="C1",
    network="N1",
)
"""Trial of the spec on an ideal network."""


def topics(runs: Runs) -> Finding:
    """Iterations and time to the same likelihood."""
    run = runs.get(LDA.spec)
    rows = []
    for at, noun in ((TIME, "time"), (ITERATIONS, "iterations")):
        for arm, paper in CONVERGED.items():
            ours = measure(run, [RING, arm], partial(reached_over, at, -np.inf))
            rows.append(
                Row(f"{noun} to the same likelihood, {arm} over ring", "x", paper[at] / CONVERGED_RING[at], ours=ours)
            )
    paces = [
        Row(
            f"time of an iteration, {arm} over ring",
            "x",
            paper[TIME] / paper[ITERATIONS] / (CONVERGED_RING[TIME] / CONVERGED_RING[ITERATIONS]),
            ideal_pace(arm),
            measure_means(run, [RING, arm], rounds_s),
        )
        for arm, paper in CONVERGED.items()
    ]
    return Finding(
        (*rows, *paces),
        tuple(near(f"{row.name}: within {CLOSE:.0%} of the paper's", row, CLOSE) for row in rows),
        (
            f"The likelihood is that of held-out tokens. Numbers are medians over {LEVELS} levels of it, from half of "
            "the way to the best that both arms reached. They are no independent samples, so intervals of a single "
            "repeat are too narrow.",
            "Time to a likelihood is iterations times the time of one, which the last rows have. Their theory is the "
            "same scheduler on an ideal network whose rates change alike over a ring's bound; of async it is the time "
            "for which all updates pass the server's link. The paper's MLfabric-A takes less for an iteration than its "
            f"ring. Here it takes {ideal_pace('A-30'):.2g} times as long even on an ideal network, so it cannot be "
            "sooner there, unless it needs far fewer iterations.",
            "The paper's async has 32 workers for one server. With 12 of them the server has less to carry.",
        ),
    )


def ideal_pace(arm: str) -> float:
    """Compute how many times as long an iteration takes as a ring's at least."""
    ring = ring_of(IDEAL, OURS)
    if arm not in BOUNDS:
        return max(IDEAL.pace_s, OURS * 8 * IDEAL.size_bytes / IDEAL.rate_bps / goodput(MTU_BYTES)) / ring
    return round_s(replace(IDEAL, scheme=f"mlfabric_a(delay_bound={BOUNDS[arm]})")) / ring
