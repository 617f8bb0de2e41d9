"""R^2 is 1 of what has the form, less of what has not, and Spearman's coefficient is 1 of what has the same order.

Intervals are as wide as the samples are apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from testbed.analysis.papers.fitting import explained, r_squared, spearman

X = np.arange(1.0, 9.0)
LINE = np.stack([X, np.ones_like(X)], axis=1)


def test_a_line_is_a_line() -> None:
    assert r_squared(LINE, 3 * X + 2) == pytest.approx(1)


def test_noise_about_a_level_is_no_line() -> None:
    assert r_squared(LINE, np.array([1.0, -1, 1, -1, -1, 1, -1, 1])) == pytest.approx(0, abs=0.05)


def test_interval() -> None:
    rng = np.random.default_rng(1)
    exact = explained(LINE, [np.array([x, x]) for x in X])
    assert (exact.low, exact.value, exact.high) == pytest.approx((1, 1, 1))
    noisy = explained(LINE, [x + rng.normal(0, 2, 10) for x in X])
    assert noisy.low < noisy.value < 1
    assert noisy.low < noisy.high < 1


def test_spearman() -> None:
    cells = [np.array([x, x + 0.1]) for x in X]
    assert spearman(X**3, cells).value == pytest.approx(1)
    assert spearman(-X, cells).value == pytest.approx(-1)
    swapped = spearman(X[[1, 0, *range(2, 8)]], cells)
    assert swapped.value == pytest.approx(stats.spearmanr(X[[1, 0, *range(2, 8)]], X).statistic)
    noisy = spearman(X, [x + np.random.default_rng(int(x)).normal(0, 3, 10) for x in X])
    assert noisy.low < noisy.value < 1
    assert spearman(X, [cell[:1] for cell in cells]).low == -np.inf
