"""Medians, ratios and tests, with what may be concluded from few and noisy samples.

Everything here is a pure function of its samples, without random draws. Samples are kept, never only their summary.

**Intervals.** What an interval is to cover is the median of the distribution that independent samples are from.

- From :data:`ORDERED` samples on, its ends lie between two order statistics: how often those enclose the median follows
  from the binomial distribution, whatever the samples' own is, and the interpolation (T. P. Hettmansperger and S. J.
  Sheather, Confidence intervals based on interpolated order statistics, Stat. Probab. Lett. 4, 1986) makes it 95 %.
- Fewer samples do not enclose it so often: the range of five does in 94 % of cases, that of two in 50 %. Then the ends
  are those of Student's t on the logarithms, which assumes a distribution that is about symmetric there. Two samples
  that scatter by 1 % have an interval of +-9 %, and they know no more.
- One sample says nothing of its spread.

``tests/analysis/test_coverage.py`` shows that they cover what they should, and
``docs/decisions/intervals-of-few-repeats.md`` what else was tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
ORDERED = 6
"""From so many samples on, their range encloses the median often enough: in 1 - 2 / 2^6 = 97 % of cases."""
MOST_EXACT = 100
"""Samples of both sides together in an exact test, which takes 1 ms then; beyond, the approximation is close."""
Values: TypeAlias = npt.NDArray[np.float64]
Samples: TypeAlias = Sequence[float] | Values


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

    @property
    def inverse(self) -> Interval:
        """Interval of 1 / x, for a ratio seen from the other side."""
        return Interval(1 / self.value, 1 / self.high, 1 / self.low if self.low > 0 else float("inf"))


def median(samples: Samples, *, signed: bool = False) -> Interval:
    """The median of independent samples with its interval.

    Args:
        signed: samples are differences, which may as well be below 0, and few of them are taken as they are. Else
            logarithms are taken of few samples, if all are positive.

    Raises:
        ValueError: there are no samples.
    """
    values = _some(samples)
    found = float(np.median(values))
    if len(values) == 1:
        return _unknown(found)
    if len(values) >= ORDERED:
        return _around(found, *_ordered(values))
    if signed or (values <= 0).any():
        return _around(found, *_student(values))
    return _around(found, *_exp(*_student(np.log(values))))


def paired_ratio(base: Samples, new: Samples) -> Interval:
    """Median of ``new[i] / base[i]``, for samples that were taken in turn, so that what slows the machine slows both.

    Of an even number it is the geometric mean of the middle two, and all is computed on logarithms, so that ``base``
    over ``new`` is the inverse of ``new`` over ``base``.

    Raises:
        ValueError: there are none, not equally many, or a sample is not positive.
    """
    above, below = _positive(new), _positive(base)
    if len(above) != len(below):
        raise ValueError(f"{len(above)} samples cannot be paired with {len(below)}")
    ratios = np.sort(above / below)
    found = float(np.sqrt(ratios[(len(ratios) - 1) // 2] * ratios[len(ratios) // 2]))
    if len(ratios) == 1:
        return _unknown(found)
    logs = np.log(ratios)
    return _around(found, *_exp(*(_ordered(logs) if len(logs) >= ORDERED else _student(logs))))


def ratio(base: Samples, new: Samples) -> Interval:
    """Ratio of the medians, ``new`` over ``base``, of samples that have nothing to do with each other.

    Where both are few its interval is Welch's t on the logarithms. Else it combines the two medians' intervals (MOVER:
    G. Y. Zou and A. Donner, Construction of confidence limits about effect measures, Stat. Med. 27, 2008), which asks
    nothing of the distributions, and covers 96 to 98 %.

    Raises:
        ValueError: either has none, or a sample is not positive.
    """
    above, below = _positive(new), _positive(base)
    found = float(np.median(above) / np.median(below))
    if min(len(above), len(below)) == 1:
        return _unknown(found)
    if max(len(above), len(below)) < ORDERED:
        return _around(found, *_exp(*_welch(np.log(below), np.log(above))))
    one, other = _log(median(above)), _log(median(below))
    low = np.hypot(one.value - one.low, other.high - other.value)
    high = np.hypot(one.high - one.value, other.value - other.low)
    return _around(found, *_exp(np.log(found) - low, np.log(found) + high))


def mean(samples: Samples) -> Interval:
    """The mean of independent samples, and its interval by Student's t: where their sum counts, and not the usual one.

    Raises:
        ValueError: there are no samples.
    """
    values = _some(samples)
    found = float(values.mean())
    return _unknown(found) if len(values) == 1 else _around(found, *_student(values))


def mean_ratio(base: Samples, new: Samples) -> Interval:
    """Ratio of the means, ``new`` over ``base``, of samples that have nothing to do with each other.

    The interval is Welch's t on the logarithms of the means, whose errors are the means' own, relative to them.

    Raises:
        ValueError: either has none, or a mean is not positive.
    """
    above, below = _some(new), _some(base)
    _positive([above.mean(), below.mean()])
    found = float(above.mean() / below.mean())
    if min(len(above), len(below)) == 1:
        return _unknown(found)
    scaled = (below / below.mean() + np.log(below.mean()), above / above.mean() + np.log(above.mean()))
    return _around(found, *_exp(*_welch(*scaled)))


def p_differ(base: Samples, new: Samples) -> float:
    """Return the probability of samples that differ so much, if both are from one distribution (Mann-Whitney,
    two-sided).

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


def _some(samples: Samples) -> Values:
    values = np.asarray(samples, float)
    if not len(values):
        raise ValueError("there are no samples")
    return values


def _positive(samples: Samples) -> Values:
    values = _some(samples)
    if (values <= 0).any():
        raise ValueError(f"{values.min()} cannot be part of a ratio: it is not above 0")
    return values


def _unknown(value: float) -> Interval:
    return Interval(value, -np.inf, np.inf)


def _around(value: float, low: float, high: float) -> Interval:
    """With ends that rounding has not moved past the value."""
    return Interval(value, min(low, value), max(high, value))


def _exp(low: float, high: float) -> tuple[float, float]:
    with np.errstate(over="ignore"):  # two samples far apart know nothing, and infinity says so
        return float(np.exp(low)), float(np.exp(high))


def _log(found: Interval) -> Interval:
    return Interval(*(float(np.log(one)) for one in (found.value, found.low, found.high)))


def _ordered(values: Values) -> tuple[float, float]:
    """Between which values the median lies, by :data:`ORDERED` samples or more."""
    rank, share = _ends(len(values))
    ordered = np.sort(values)
    low = ordered[rank - 1] + share * (ordered[rank] - ordered[rank - 1])
    high = ordered[-rank] + share * (ordered[-rank - 1] - ordered[-rank])
    return float(low), float(high)


@lru_cache(maxsize=1024)
def _ends(count: int) -> tuple[int, float]:
    """Find, for ``count`` samples in order, the last rank d whose interval, from the d-th of them to the d-th from
    behind, encloses the median often enough, and how far (0 to 1) the interval's ends are from there to the next
    rank's."""
    from scipy.special import bdtr  # here, for it takes longer to import than all of the harness

    outside = 2 * bdtr(np.arange(count // 2), count, 0.5)  # of ranks 1, 2, ...
    rank = int(np.searchsorted(outside, 1 - CONFIDENCE, side="right"))
    part = (1 - CONFIDENCE - outside[rank - 1]) / (outside[rank] - outside[rank - 1])
    return rank, float((count - rank) * part / (rank + (count - 2 * rank) * part))


def _student(values: Values) -> tuple[float, float]:
    """Between which values the centre of a symmetric distribution lies, by Student's t."""
    half = _quantile(len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def _welch(base: Values, new: Values) -> tuple[float, float]:
    """Between which values the difference ``new`` less ``base`` of two centres lies, by Welch's t."""
    spread, other = (values.var(ddof=1) / len(values) for values in (base, new))
    between = float(new.mean() - base.mean())
    if spread + other == 0:
        return between, between
    freedom = (spread + other) ** 2 / (spread**2 / (len(base) - 1) + other**2 / (len(new) - 1))
    half = float(_quantile(freedom) * np.sqrt(spread + other))
    return between - half, between + half


def _quantile(freedom: float) -> float:
    """Student's t with so many degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
