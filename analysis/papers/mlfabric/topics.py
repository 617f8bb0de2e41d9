"""Topic models: iterations and time to the same likelihood."""

from __future__ import annotations

from functools import partial

import numpy as np

from analysis.papers.claim import Experiment, Finding, Row, Runs
from analysis.papers.evidence import ITERATION_TIMES, measure
from analysis.papers.judging import near
from analysis.papers.mlfabric.reaching import ITERATIONS, LEVELS, TIME, reached_over
from analysis.papers.mlfabric.rounds import RING

LDA = Experiment("mlfabric/lda.yaml", (), ("repeats=3", "workload.iterations=150"), ITERATION_TIMES)
CONVERGED = {"A-30": (188, 139), "A-60": (239, 169), "async": (300, 1080)}
"""By arm, iterations and seconds until the topic model has converged."""
CONVERGED_RING = (145, 182)
CLOSE = 0.25


def topics(runs: Runs) -> Finding:
    """Iterations and time to the same likelihood."""
    run = runs.get(LDA.spec)
    rows = []
    for at, noun in ((TIME, "time"), (ITERATIONS, "iterations")):
        for arm, paper in CONVERGED.items():
            ours = measure(run, [RING, arm], partial(reached_over, at, -np.inf), number=ITERATION_TIMES)
            rows.append(
                Row(f"{noun} to the same likelihood, {arm} over ring", "x", paper[at] / CONVERGED_RING[at], None, ours)
            )
    return Finding(
        tuple(rows),
        tuple(near(f"{row.name}: within {CLOSE:.0%} of the paper's", row, CLOSE) for row in rows),
        (
            f"The likelihood is that of held-out tokens. Numbers are medians over {LEVELS} levels of it, from half of "
            "the way to the best that both arms reached. They are no independent samples, so intervals of a single "
            "repeat are too narrow.",
            "The paper's async has 32 workers for one server. With 12 of them the server has less to carry.",
        ),
    )
