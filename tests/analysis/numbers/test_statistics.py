"""Intervals, ratios and corrected tests; how often intervals cover what they should, test_coverage.py shows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from testbed.analysis.numbers.statistics import (
    ORDERED,
    Interval,
    holm,
    mean,
    mean_ratio,
    median,
    p_differ,
    paired_ratio,
    ratio,
)

positive = st.floats(1e-6, 1e6)
probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=20)
ROUNDING = 1e-13
"""Of logarithms and back again: doubles near 14, as these are at most, are 2e-15 apart."""


@given(st.lists(positive, min_size=2, max_size=20))
@example([1.3874301910400392e-06, 1.387430191040039e-06])
def test_an_interval_is_around_the_median(samples: list[float]) -> None:
    found = median(samples)
    assert found.low <= found.value <= found.high
    assert found.value == np.median(samples)
    assert median(samples) == found
    if len(samples) >= ORDERED:
        assert min(samples) <= found.low
        assert found.high <= max(samples)
    if len(samples) < 5:  # four stand for more than what they are
        assert 0 <= found.low <= min(samples) * (1 + ROUNDING)
        assert found.high >= max(samples) * (1 - ROUNDING)


def test_one_sample_says_nothing_of_its_spread() -> None:
    assert median([2.0]).relative_width == np.inf
    assert ratio([2.0], [1.0, 1.1]).high == np.inf
    assert (paired_ratio([2.0], [1.0]).value, paired_ratio([2.0], [1.0]).low) == (0.5, -np.inf)


def test_two_samples_say_little() -> None:
    """Student's t with one degree of freedom is 12.7."""
    found = median([0.99, 1.01])
    assert (found.low, found.high) == pytest.approx((0.881, 1.135), abs=2e-3)


def test_samples_that_are_the_same_leave_nothing_open() -> None:
    for count in (2, 5, 6, 30):
        same = [0.3] * count
        assert (median(same).low, median(same).high) == pytest.approx((0.3, 0.3))
        assert ratio(same, same).relative_width == paired_ratio(same, same).relative_width == 0


def test_order_statistics_are_interpolated_as_published() -> None:
    """Of six samples: 36 % of the way from the first to the second, by Hettmansperger and Sheather's formula."""
    part = (0.96875 - 0.95) / (0.96875 - 0.78125)
    share = 5 * part / (1 + 4 * part)
    found = median([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert (found.low, found.high) == pytest.approx((1 + share, 6 - share))


def test_differences_may_be_of_either_sign() -> None:
    """Logarithms of what happens to be above 0 would make 5 % of 1 to 9 %."""
    found, signed = (median([1.0, 4.0, 9.0], signed=signed) for signed in (False, True))
    assert signed.low < 0 < found.low
    assert median([-1.0, 4.0, 9.0]).low < -1
    assert median([0.0, 0.0, 1.0]).low < 0


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=10), positive)
def test_a_ratio_of_pairs_does_not_know_the_unit(pairs: list[tuple[float, float]], unit: float) -> None:
    base, new = (np.array(column) for column in zip(*pairs, strict=True))
    assert paired_ratio(base * unit, new * unit).value == pytest.approx(paired_ratio(base, new).value)


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=10))
def test_a_ratio_is_the_same_from_the_other_side(pairs: list[tuple[float, float]]) -> None:
    """0.82 and 1.22, whichever of two cells is the base; so it was not of an even number of pairs."""
    base, new = zip(*pairs, strict=True)
    for function in (paired_ratio, ratio):
        there, back = function(base, new), function(new, base).inverse
        assert (there.low, there.high) == pytest.approx((back.low, back.high))
    assert paired_ratio(base, new).value == pytest.approx(paired_ratio(new, base).inverse.value)


def test_pairs_see_through_what_slows_both() -> None:
    generator = np.random.default_rng(2)
    slowed = generator.uniform(1, 3, 20)
    found = paired_ratio(slowed, 1.05 * slowed * generator.normal(1, 0.002, 20))
    assert 1.04 < found.low < 1.05 < found.high < 1.06
    assert ratio(slowed, 1.05 * slowed).low < 1 < ratio(slowed, 1.05 * slowed).high


@pytest.mark.parametrize(("base", "new"), [([], []), ([1.0], [1.0, 2.0]), ([0.0, 1.0], [1.0, 1.0]), ([1.0], [0.0])])
def test_what_cannot_be_a_ratio_of_pairs_is_refused(base: list[float], new: list[float]) -> None:
    with pytest.raises(ValueError, match=r"no samples|cannot be"):
        paired_ratio(base, new)


@given(probabilities)
def test_correction_keeps_the_order_and_never_makes_a_test_surer(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert all(p <= now <= min(1.0, len(p_values) * p) + 1e-12 for p, now in zip(p_values, corrected, strict=True))
    assert sorted(corrected) == [corrected[i] for i in sorted(range(len(p_values)), key=p_values.__getitem__)]


def test_the_correction_is_holms() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_equal_samples_do_not_differ_and_apart_ones_do() -> None:
    assert p_differ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 1.0
    assert p_differ(range(10), range(20, 30)) < 0.001


def test_means_and_their_ratio() -> None:
    found = mean([1.0, 2.0, 3.0])
    assert found.value == 2
    assert found.low < 1 < 3 < found.high
    assert mean([2.0]) == Interval(2.0, -np.inf, np.inf)
    twice = mean_ratio([1.0, 1.1, 0.9, 1.0], [2.0, 2.2, 1.8, 2.0])
    assert twice.value == pytest.approx(2)
    assert 1.5 < twice.low < 2 < twice.high < 2.6
    assert mean_ratio([1.0, 0.0, 2.0], [2.0, 2.0]).value == pytest.approx(2)
    with pytest.raises(ValueError, match="cannot be part of a ratio"):
        mean_ratio([1.0], [0.0])
