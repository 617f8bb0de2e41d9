"""Medians, ratios and tests, with what may be concluded from few and noisy samples.

Everything here is a pure function of its samples: resampling draws from a generator with a fixed seed, so that the same
samples always give the same interval. Samples are kept, never only their summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
RESAMPLES = 9999
"""SciPy's own default. Ends of an interval then move by about 1 % of its width from one seed to the next."""
SEED = 20
MOST_EXACT = 100
"""Samples of both sides together in an exact test, which takes 1 ms then; beyond, the approximation is close."""
Samples: TypeAlias = Sequence[float] | npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate, and between which values it lies with :data:`CONFIDENCE`.

    Of one sample nothing is known but itself: then ``low`` is -inf and ``high`` is inf.
    """

    value: float
    low: float
    high: float

    @property
    def relative_width(self) -> float:
        """Half of the interval's width over the value: 0.03 is written +-3 %."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else float("inf")


def median(samples: Samples) -> Interval:
    """The median of independent samples with its bootstrap interval (percentile method).

    Raises:
        ValueError: there are no samples.
    """
    values = _some(samples)
    found = float(np.median(values))
    if len(values) == 1:
        return Interval(found, -np.inf, np.inf)
    return Interval(found, *_between(_medians(values, stream=0)))


def paired_ratio(base: Samples, new: Samples) -> Interval:
    """Median of ``new[i] / base[i]``, for samples that were taken in turn, so that what slows the machine slows both.

    Raises:
        ValueError: there are none, not equally many, or a base is not positive.
    """
    above, below = _some(new), _some(base)
    if len(above) != len(below):
        raise ValueError(f"{len(above)} samples cannot be paired with {len(below)}")
    _check_positive(below)
    return median(above / below)


def ratio(base: Samples, new: Samples) -> Interval:
    """Ratio of the medians, ``new`` over ``base``, of samples that have nothing to do with each other.

    Raises:
        ValueError: either has none, or a base is not positive.
    """
    above, below = _some(new), _some(base)
    _check_positive(below)
    found = float(np.median(above) / np.median(below))
    if min(len(above), len(below)) == 1:
        return Interval(found, -np.inf, np.inf)
    return Interval(found, *_between(_medians(above, stream=0) / _medians(below, stream=1)))


def p_differ(base: Samples, new: Samples) -> float:
    """How likely samples that differ so much are, if both are from one distribution (Mann-Whitney, two-sided).

    Exact where no value comes twice and samples are few: the normal approximation gives 20 times the p-value of 10 and
    10 samples that do not overlap.
    """
    from scipy import stats  # here, for it takes longer to import than all of the harness

    ours, theirs = _some(base), _some(new)
    values = np.concatenate([ours, theirs])
    exact = len(np.unique(values)) == len(values) <= MOST_EXACT
    method = "exact" if exact else "asymptotic"
    return float(stats.mannwhitneyu(ours, theirs, alternative="two-sided", method=method).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of tests made together, each corrected for all of them (S. Holm, Scand. J. Statist. 6, 1979).

    The chance that any of those below a level is so by accident stays below this level.
    """
    count = len(p_values)
    corrected, reached = [0.0] * count, 0.0
    for rank, index in enumerate(sorted(range(count), key=p_values.__getitem__)):
        reached = max(reached, min(1.0, (count - rank) * p_values[index]))
        corrected[index] = reached
    return corrected


def _check_positive(base: npt.NDArray[np.float64]) -> None:
    if (base <= 0).any():
        raise ValueError(f"{base.min()} cannot be what others are measured by")


def _some(samples: Samples) -> npt.NDArray[np.float64]:
    values = np.asarray(samples, float)
    if not len(values):
        raise ValueError("there are no samples")
    return values


def _medians(values: npt.NDArray[np.float64], stream: int) -> npt.NDArray[np.float64]:
    """float64[RESAMPLES]: the median of each resample, drawn with replacement; streams are independent."""
    ordered = np.sort(values)
    below, above = _middles(len(values), stream)
    found: npt.NDArray[np.float64] = (ordered[below] + ordered[above]) / 2
    return found


@lru_cache(maxsize=64)
def _middles(count: int, stream: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """int32[RESAMPLES] each: of ``count`` samples in order, which two each resample's median lies between.

    That does not depend on the samples, so thousands of intervals need the draws but once.
    """
    generator = np.random.default_rng([SEED, stream])
    middle = sorted({(count - 1) // 2, count // 2})
    drawn = np.partition(generator.integers(0, count, (RESAMPLES, count), dtype=np.int32), middle, axis=-1)
    return drawn[:, middle[0]].copy(), drawn[:, middle[-1]].copy()


def _between(estimates: npt.NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.quantile(estimates, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)
