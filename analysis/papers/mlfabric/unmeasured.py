"""A claim that no run decides: the convergence of descent with delays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from testbed.analysis.papers.claim import Finding, Row, Runs
from testbed.analysis.papers.evidence import Measured, Values
from testbed.analysis.papers.judging import near, within
from testbed.analysis.papers.mlfabric.rounds import ABOUT
from testbed.analysis.theory.delayed_descent import Delays, errors, problem

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
