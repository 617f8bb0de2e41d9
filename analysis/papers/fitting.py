"""How well a formula's form explains what was measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.papers.evidence import Values
from analysis.statistics import CONFIDENCE, SEED, Interval

RESAMPLES = 999
"""A fit is slower than a median, and its interval is held against one limit far from it."""


def explained(form: Values, cells: Sequence[Values]) -> Interval:
    """R^2 of least squares on the cells' means, with its interval from resampling the samples within each.

    ``form`` is float64[cells, terms]; each cell is its samples.
    """
    generator = np.random.default_rng(SEED)
    found = r_squared(form, np.array([cell.mean() for cell in cells]))
    again = [
        r_squared(form, np.array([generator.choice(cell, len(cell)).mean() for cell in cells]))
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(again, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(found, float(low), float(high))


def r_squared(form: Values, means: Values) -> float:
    """How much of the variance of ``means`` the best combination of the columns of ``form`` explains."""
    weights, *_ = np.linalg.lstsq(form, means, rcond=None)
    return 1 - float(((means - form @ weights) ** 2).sum() / ((means - means.mean()) ** 2).sum())
