"""Intervals cover what they should as often as they say, however few the samples.

Samples are drawn from distributions whose median is known, as repeats scatter here: by 1 to 20 %, evenly to both sides,
or with a floor and a tail towards longer times.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from testbed.analysis.numbers.statistics import Interval, mean, mean_ratio, median, paired_ratio, ratio
from testbed.analysis.numbers.stopping import scatter, share_that_covers
from testbed.analysis.papers.evidence import explained, r_squared

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
GAMMA_2_MEDIAN = 1.678347
"""Of a gamma distribution of shape 2 and scale 1."""
DISTRIBUTIONS: dict[str, Draw] = {  # each with median 1
    "normal, 5 %": lambda random, shape: random.normal(1, 0.05, shape),
    "lognormal, 20 %": lambda random, shape: random.lognormal(0, 0.2, shape),
    "floor and tail": lambda random, shape: 1 + 0.03 * (random.gamma(2, 1, shape) - GAMMA_2_MEDIAN),
}
SAMPLES = 2500
"""Intervals a case: the share that cover is then known to 0.45 % (a standard error)."""


def covered(intervals: list[Interval], truth: float = 1.0) -> float:
    """The share of intervals that hold the truth."""
    return float(np.mean([one.low <= truth <= one.high for one in intervals]))


def rehearsed(*values: object) -> list[object]:
    """More values of a parameter, for which the first ones stand in the suite."""
    return [pytest.param(value, marks=pytest.mark.rehearse) for value in values]


@pytest.mark.parametrize("count", [2, 3, 5, 6, 10, 30, *rehearsed(4, 7, 8, 15)])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_of_the_median(name: str, count: int) -> None:
    drawn = DISTRIBUTIONS[name](np.random.default_rng(1), (SAMPLES, count))
    assert 0.93 <= covered([median(samples) for samples in drawn]) <= 0.97


@pytest.mark.parametrize("count", [3, 6, 10])
def test_of_pairs_that_share_what_slows_the_machine(count: int) -> None:
    random = np.random.default_rng(2)
    base = random.lognormal(0, 0.3, (SAMPLES, count))
    new = 0.82 * base * DISTRIBUTIONS["floor and tail"](random, base.shape)
    assert 0.93 <= covered([paired_ratio(*pair) for pair in zip(base, new, strict=True)], 0.82) <= 0.97


@pytest.mark.parametrize("counts", [(2, 2), (3, 3), (3, 10), (10, 10), *rehearsed((5, 5), (6, 6), (30, 30))])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_of_the_ratio_of_two_runs(name: str, counts: tuple[int, int]) -> None:
    """Rather too wide than too narrow."""
    random = np.random.default_rng(3)
    base, new = (DISTRIBUTIONS[name](random, (SAMPLES // 4, count)) for count in counts)
    assert 0.94 <= covered([ratio(*pair) for pair in zip(base, 0.82 * new, strict=True)], 0.82) <= 0.99


@pytest.mark.parametrize("count", [3, 5])
def test_of_how_well_a_form_explains_what_was_measured(count: int) -> None:
    """Rather too wide than too narrow; draws from the samples themselves cover 78 to 87 %."""
    random = np.random.default_rng(4)
    x = np.arange(1.0, 13.0)
    form = np.stack([x, np.ones_like(x)], axis=1)
    truth = 10 + 3 * x + 6 * np.sin(2.1 * x)
    drawn = truth[:, None] * (1 + 0.05 * random.normal(size=(60, len(x), count)))
    assert covered([explained(form, list(cells)) for cells in drawn], float(r_squared(form, truth))) >= 0.93


@pytest.mark.parametrize("count", [3, 7, 20])
def test_of_means(count: int) -> None:
    random = np.random.default_rng(5)
    base, new = (random.normal(1, 0.2, (SAMPLES, count)) for _ in range(2))
    assert 0.93 <= covered([mean(samples) for samples in base]) <= 0.97
    assert 0.93 <= covered([mean_ratio(*each) for each in zip(base, new, strict=True)]) <= 0.98


def test_a_run_tells_how_often_intervals_that_became_narrow_cover() -> None:
    """Against more cells than it plays itself, from another seed."""
    random = np.random.default_rng(7)
    for scattered, least_share, most_share in ((0.01, 0.93, 0.97), (0.06, 0.76, 0.87)):
        hits = []
        for samples in 1 + scattered * random.standard_normal((1000, 20)):
            intervals = (median(samples[:count]) for count in range(3, 21))
            narrow = next((one for one in intervals if one.relative_width <= 0.03), None)
            hits += [narrow.low <= 1 <= narrow.high] if narrow else []
        assert share_that_covers(0.03, 3, 20, scattered) == pytest.approx(np.mean(hits), abs=0.05)
        assert least_share <= np.mean(hits) <= most_share
    assert share_that_covers(0.03, 3, 20, 0.5) is None


def test_the_scatter_is_that_of_all_cells() -> None:
    assert scatter([]) is scatter([[1.0]]) is None
    cells = np.exp(0.05 * np.random.default_rng(3).standard_normal((400, 4))) * np.linspace(1, 9, 400)[:, None]
    assert scatter(cells.tolist()) == pytest.approx(0.05, rel=0.05)
