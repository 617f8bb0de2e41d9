"""Fit of a formula's form, or of predicted costs, to what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from testbed.analysis.numbers.statistics import CONFIDENCE, Interval
from testbed.analysis.papers.evidence import Values

DRAWS = 1999
SEED = 20


def explained(form: Values, cells: Sequence[Values]) -> Interval:
    """R^2 of least squares on the cells' means, with its interval; none where a cell has but one sample.

    ``form`` is float64[cells, terms]; each cell is its samples.
    """
    return _of_means(lambda means: r_squared(form, means), cells)


def spearman(predicted: Values, cells: Sequence[Values]) -> Interval:
    """Spearman's coefficient between numbers predicted of the cells, float64[cells], and their means, with its
    interval; none where a cell has but one sample."""
    from scipy.stats import rankdata  # here, for it takes longer to import than all of the harness

    order = rankdata(predicted) - (len(predicted) + 1) / 2

    def coefficient(means: Values) -> Values:
        ranks = rankdata(means, axis=-1) - (len(predicted) + 1) / 2
        found: Values = ranks @ order / np.sqrt((ranks**2).sum(axis=-1) * (order**2).sum())
        return found

    return _of_means(coefficient, cells)


def _of_means(number: Callable[[Values], Values], cells: Sequence[Values]) -> Interval:
    """Compute a number from the cells' means, float64[..., cells] to float64[...], and its interval.

    The interval is that over draws of what the means may be: each cell's by Student's t, around its own. Draws from
    the samples (bootstrap) scatter too little if these are few: 95 % then cover 78 to 92 % at 3 to 8 samples.
    """
    means = np.array([cell.mean() for cell in cells])
    found = float(number(means))
    if min(map(len, cells)) < 2:
        return Interval(found, -np.inf, np.inf)
    counts = np.array([len(cell) for cell in cells])
    errors = np.array([cell.std(ddof=1) for cell in cells]) / np.sqrt(counts)
    drawn = means + errors * np.random.default_rng(SEED).standard_t(counts - 1, (DRAWS, len(cells)))
    low, high = np.quantile(number(drawn), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(found, min(found, float(low)), max(found, float(high)))


def r_squared(form: Values, means: Values) -> Values:
    """Compute how much of the variance of ``means`` (float64[..., cells]) the best combination of the columns of
    ``form`` explains, float64[...]."""
    left = means - means @ np.linalg.pinv(form).T @ form.T
    share: Values = (left**2).sum(axis=-1) / ((means - means.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    return 1 - share
