"""How fast MLfabric learns: a topic model to the same likelihood; descent with delays, which no run decides; and how
stale the updates of a stale synchronous scheme can be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs, Table, near, within
from testbed.analysis.papers.evidence import Measured, Values, measure, measure_means
from testbed.analysis.papers.mlfabric.ideals import (
    ABOUT,
    ITERATIONS,
    LEVELS,
    MTU_BYTES,
    RING,
    TIME,
    Asked,
    reached_over,
    ring_of,
    round_s,
    rounds_s,
)
from testbed.analysis.theory.delayed_descent import Delays, errors, problem
from testbed.workloads.kinds.asynchronous.ledger import Ledger, most_stale, staleness
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


SPREADS = (16, 4, 1)
MEAN_DELAY, STEPS, DESCENTS, C, FEATURES, SEED = 16, 2000, 64, 0.1, 3, 1


def convergence(_: Runs) -> Finding:
    """The error of descent with delays in narrower and narrower intervals."""
    asked = problem(SEED, features=FEATURES)
    found = {spread: errors(asked, Delays(MEAN_DELAY, spread), STEPS, DESCENTS, SEED, C) for spread in SPREADS}
    each = [Row(f"error, epsilon {spread}", "", ours=_simulated(found[spread])) for spread in SPREADS]
    over = [
        Row(
            f"error with epsilon {wide} over {narrow}",
            "x",
            wide / narrow,
            proven(wide) / proven(narrow),
            _simulated(found[wide] / found[narrow]),
        )
        for wide, narrow in pairwise(SPREADS)
    ]
    return Finding(
        (*over, *each),
        (
            *(within(f"{row.name}: it is larger", row, low=1.0) for row in over),
            *(near(f"{row.name}: in proportion, within {ABOUT:.0%}", row, ABOUT) for row in over),
        ),
        (
            "Logistic regression, simulated: each step has the gradient of one sample, of weights that are as many "
            f"steps old as is drawn around {MEAN_DELAY}, and the rate of eq. 21. The error is how much more than the "
            f"least the loss of the mean weights is after {STEPS:,} steps.",
            "Eq. 4 is a bound, and its proof does not lead there: the integral of eq. 26 has a term, 6 tau + 6 tau^2 "
            f"- 2, that epsilon does not change. Here it is {STILL:,}, and epsilon is added to it. Theory is the ratio "
            "of these integrals, which is near 1: delays of a narrower interval are not proven to lead to an error in "
            "proportion. One problem cannot show that no other one agrees with eq. 4.",
        ),
    )


STILL = 6 * MEAN_DELAY + 6 * MEAN_DELAY**2 - 2
"""The term of eq. 26 that epsilon does not change."""


def proven(spread: int) -> float:
    """The integral of eq. 26 over all steps but for c R^2 / 3, which does not depend on epsilon: both terms are over
    sqrt(2 (t + tau - epsilon) - 1)."""
    begin, end = (math.sqrt(2 * (step + MEAN_DELAY - spread) - 1) for step in (1, STEPS))
    return (STILL + spread) * (end - begin)


def _simulated(samples: Sequence[float] | Values) -> Measured:
    return Measured(tuple(float(sample) for sample in samples), "simulations", 0, 0)


PAPERS_BOUND = 2
"""K in the example of section 6."""
WORKERS = (2, 4, 8, 30)


def stale_synchronous() -> Table:
    """The largest staleness that stale synchronous SGD allows: the paper's, derived, and reached in a ledger."""
    rows = []
    for bound in (0, 1, PAPERS_BOUND, 3):
        for world in WORKERS:
            paper = str(bound * world) if bound == PAPERS_BOUND else "-"
            rows.append((str(bound), str(world), paper, str(most_stale(world, bound)), str(reached(world, bound))))
    return Table(
        "MLfabric section 6: the most updates of others that one can miss when workers may be K iterations ahead",
        ("K", "workers N", "paper: 2 N for K = 2", "(2K+1)(N-1)", "reached"),
        tuple(rows),
        (
            "The paper does not derive its 2 N. While a worker computes, each other may go from K iterations behind it "
            "to K+1 ahead, which is 2K+1 updates; 'reached' is the staleness of an update in a schedule that the "
            "server of scheme ssp allows: one worker runs ahead as far as it may, and then all others do.",
        ),
        left=0,
    )


def reached(world: int, bound: int) -> int:
    """Staleness of the first worker's update if it runs ahead, gets weights, and then waits for all it may miss."""
    others = range(1, world)
    ledger = Ledger(world, world * 10 * (bound + 2), bound)

    def work(rank: int) -> bool:
        if rank not in ledger.computing:
            return False
        ledger.apply(rank, ledger.given[rank], goes_on=True)
        ledger.release()
        return True

    while work(0):  # until it is held back
        pass
    for rank in others:  # catch up by one iteration, so that it gets weights
        work(rank)
    for _ in range(2 * bound + 1):
        for rank in others:
            work(rank)
    ledger.apply(0, ledger.given[0], goes_on=True)
    return staleness(ledger.order)[-1]


TABLES = {"mlfabric.staleness": stale_synchronous}
