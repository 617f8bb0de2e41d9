"""Sketches add like gradients, and see what does not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.base.errors import TrialError
from testbed.evidence.sum_check import Checked, check, compared
from testbed.workloads.learning import sketch
from testbed.workloads.learning.sketch import LINES, PartSketch, Sketch
from testbed.workloads.sync.fixed_point import sum_error
from testbed.workloads.sync.forest import FixedPoint

FLOATS, WORLD = 50_000, 6
CHUNK = 128 * 2**10
EDGES = (0, 10_000, 10_001, FLOATS)
BUCKETS = list(itertools.pairwise(EDGES))
Parts = list[np.ndarray]


def sketched(values: np.ndarray) -> list[float]:
    return Sketch(values, BUCKETS).whole()


def gradients(seed: int = 1) -> Parts:
    """Of magnitudes that differ as a model's do."""
    random = np.random.default_rng(seed)
    size = np.exp(2 * random.standard_normal(FLOATS))
    return [(size * random.standard_normal(FLOATS)).astype(np.float32) for _ in range(WORLD)]


def total(parts: Parts, factor: float = 1.0, only: slice = slice(0, 0)) -> np.ndarray:
    """Along a chain; each partial sum counts ``factor``, in ``only`` these elements if that is not empty."""
    found = parts[0].copy()
    for part in parts[1:]:
        where = only if only.stop else slice(0, FLOATS)
        found[where] *= np.float32(factor)
        found += part
    return found


def verdict(parts: Parts, whole: np.ndarray, fixed: FixedPoint | None = None) -> float:
    """How far the sum is off, in units of what is allowed."""
    terms = [sketched(part) for part in parts]
    explained = sum_error(fixed, len(parts), sum(term[0] for term in terms), FLOATS, CHUNK) if fixed else 0.0
    error, allowed = compared(terms, sketched(whole), explained)
    return error / allowed


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), order=st.permutations(range(WORLD)))
def test_sums_in_any_order_are_right(seed: int, order: list[int]) -> None:
    parts = gradients(seed)
    assert verdict(parts, total([parts[i] for i in order])) < 0.5


def test_sums_that_are_not_all_of_the_gradients_are_found() -> None:
    parts = gradients()
    small = [*parts[:3], parts[3] * np.float32(0.9995), *parts[4:]]
    swapped = total(parts)
    swapped[[7, 8]] = swapped[[8, 7]]
    wrong = {
        "partial sums too small": total(parts, 0.9995),
        "those of one class too small": total(parts, 0.9995, slice(20_000, 28_000)),
        "one worker's too small": total(small),
        "a worker missing": total(parts[1:]),
        "a worker twice": total([*parts, parts[0]]),
        "two elements swapped": swapped,
        "no numbers": np.full(FLOATS, np.nan, np.float32),
    }
    found = {what: verdict(parts, whole) for what, whole in wrong.items()}
    assert not [what for what, off in found.items() if off <= 3], found


def test_two_errors_that_cancel_are_found_wherever_they_are() -> None:
    """All pairs of elements of a row, and pairs of rows: with signs alone, one in 16 leaves nothing."""
    random = np.random.default_rng(sketch._SEED)
    of_columns, of_rows = sketch.factors(random, sketch.ROW), sketch.factors(random, 300)
    pairs = np.abs(of_columns[:, None] - of_columns[None])
    left = np.sqrt(np.mean(pairs**2, axis=2))[np.triu_indices(sketch.ROW, 1)]
    assert left.min() > 0.1
    elements = (of_rows[:, None] * of_columns[None]).reshape(-1, LINES)
    first, second = random.integers(0, len(elements), (2, 200_000))
    left = np.sqrt(np.mean((elements[first] - elements[second]) ** 2, axis=1))[first != second]
    assert left.min() > 0.1
    assert (left < 0.25).mean() < 1 / 256


@pytest.mark.parametrize("apart", [1, 3, 255, 256, 9_000])
def test_a_pair_of_cancelling_errors_in_a_sum_is_found(apart: int) -> None:
    parts = gradients()
    norms = sum(sketched(part)[0] for part in parts)
    whole = total(parts)
    whole[[5, 5 + apart]] += np.float32(3e-4 * norms) * np.array([1, -1], np.float32)
    assert verdict(parts, whole) > 3


def test_a_sketch_is_made_bucket_by_bucket_and_tells_the_norm() -> None:
    values = gradients()[0]
    sketch = Sketch(values, BUCKETS)
    for bucket in range(len(BUCKETS)):
        sketch.add(bucket)
    assert sketch.values() == sketched(values)
    assert len(sketch.values()) == 1 + LINES
    assert sketch.values()[0] == pytest.approx(np.linalg.norm(values), rel=0.2)


def test_what_is_rounded_to_integers_may_be_off_by_half_a_step() -> None:
    parts = gradients()
    rounded = np.sum([np.rint(part * 100) for part in parts], axis=0) / 100
    assert verdict(parts, rounded.astype(np.float32)) > 2
    assert verdict(parts, rounded.astype(np.float32), FixedPoint(100, 64)) < 0.5
    assert verdict(parts, total(parts[1:]), FixedPoint(1e6, 64)) > 100
    assert verdict(parts, total(parts[1:]), FixedPoint(None, 64)) > 100


def test_a_sum_that_is_off_or_was_not_looked_at_fails() -> None:
    check(Checked(3, 0, 1e-7, 1e-6), expected=3)
    with pytest.raises(TrialError) as caught:
        check(Checked(3, 2, 5e-4, 1.9e-6), expected=3)
    assert caught.value.problem == (
        "the sum of iteration 2 is off from the workers' gradients by 0.0005 of their norms; rounding explains 1.9e-06"
    )
    with pytest.raises(TrialError, match="only 2 of 3 sums could be checked"):
        check(Checked(2, 0, 1e-7, 1e-6), expected=3)


def test_sketches_of_spans_add_up_to_that_of_the_whole() -> None:
    """Spans that begin and end anywhere, also in the middle of a bucket's rows, and across buckets."""
    values, edges = gradients()[0], [0, 7, 5_000, 9_999, 10_003, 30_001, FLOATS]
    parts = [PartSketch(BUCKETS), PartSketch(BUCKETS)]
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        parts[number % 2].add(start, values[start:stop])
    together = np.sum([part.take() for part in parts], axis=0)
    whole = sketched(values)
    assert np.allclose(together[1:], whole[1:], atol=1e-6 * whole[0])
    assert parts[0].take() == [0.0] * (1 + LINES), "each is forgotten once it was taken"
