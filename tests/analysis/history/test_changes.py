"""Change points where the truth is known, and hardly any where nothing changed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.history.changes import SHORTEST, change_points


def noisy(levels: list[float], seed: int = 1, spread: float = 0.01) -> list[float]:
    return list(np.random.default_rng(seed).lognormal(0, spread, len(levels)) * levels)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([1.0] * 30, []),
        ([1.0] * 15 + [1.1] * 15, [15]),
        ([1.0] * 10 + [0.9] * 10 + [1.0] * 10, [10, 20]),
        ([1.0] * 20 + [1.1] * 2, [20]),  # as soon as two runs have it
        ([1.0] * 20 + [1.1], []),
        ([1.0] * 10 + [2.0] + [1.0] * 10, []),  # one bad run
        ([1.0, 2.0, 1.0, 2.0, 1.0], []),
    ],
)
def test_steps_are_found_where_they_are(levels: list[float], expected: list[int]) -> None:
    assert change_points(noisy(levels)) == expected


def test_hardly_ever_where_nothing_changed() -> None:
    assert sum(bool(change_points(noisy([1.0] * 20, seed))) for seed in range(100)) <= 4


def test_nearly_always_where_something_did() -> None:
    stepped = [1.0] * 8 + [1.05] * 8
    assert sum(change_points(noisy(stepped, seed)) == [8] for seed in range(100)) >= 88


@given(st.lists(st.floats(0.5, 2), min_size=1, max_size=25))
def test_segments_are_long_enough(values: list[float]) -> None:
    found = change_points(values)
    edges = [0, *found, len(values)]
    assert len(values) < 2 * SHORTEST or all(b - a >= SHORTEST for a, b in pairwise(edges))


def test_a_tenth_of_a_percent_is_no_change_however_quiet_the_machine() -> None:
    assert change_points([1.0] * 10 + [1.0005] * 10) == []


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 5, [1.0] * 50])
def test_short_and_constant_series_do_not_change(values: list[float]) -> None:
    assert change_points(values) == []


def test_what_has_no_logarithm_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.0 has no logarithm"):
        change_points([1.0, 0.0])
