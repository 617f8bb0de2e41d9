"""Intervals hold what they are to hold, as often as they say; ratios and corrected tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics import holm, median, p_differ, paired_ratio, ratio

positive = st.floats(1e-6, 1e6)
probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=20)


@given(st.lists(positive, min_size=2, max_size=20))
def test_an_interval_is_around_the_median_and_within_the_samples(samples: list[float]) -> None:
    found = median(samples)
    assert min(samples) <= found.low <= found.value <= found.high <= max(samples)
    assert median(samples) == found


def test_one_sample_says_nothing_of_its_spread() -> None:
    assert median([2.0]).relative_width == np.inf
    assert ratio([2.0], [1.0, 1.1]).high == np.inf


@pytest.mark.parametrize("count", [10, 30])
def test_intervals_hold_the_median_about_as_often_as_they_say(count: int) -> None:
    generator = np.random.default_rng(1)
    found = [median(generator.lognormal(0.0, 0.1, count)) for _ in range(200)]
    assert 0.90 <= np.mean([one.low <= 1.0 <= one.high for one in found]) <= 0.995


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=10), positive)
def test_a_ratio_of_pairs_does_not_know_the_unit(pairs: list[tuple[float, float]], unit: float) -> None:
    base, new = (np.array(column) for column in zip(*pairs, strict=True))
    assert paired_ratio(base * unit, new * unit).value == pytest.approx(paired_ratio(base, new).value)


def test_pairs_see_through_what_slows_both() -> None:
    generator = np.random.default_rng(2)
    slowed = generator.uniform(1, 3, 20)
    found = paired_ratio(slowed, 1.05 * slowed * generator.normal(1, 0.002, 20))
    assert 1.04 < found.low < 1.05 < found.high < 1.06
    assert ratio(slowed, 1.05 * slowed).low < 1 < ratio(slowed, 1.05 * slowed).high


@pytest.mark.parametrize(("base", "new"), [([], []), ([1.0], [1.0, 2.0]), ([0.0, 1.0], [1.0, 1.0])])
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
