"""Fixed point: exact sums of rounded numbers, and nothing wraps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from testbed.base.errors import WorkerError
from testbed.workloads.sync.fixed_point import LOWEST, Scales, exponent
from testbed.workloads.sync.forest import FixedPoint

FLOATS = st.floats(-(2.0**60), 2.0**60, width=32, allow_subnormal=False)
VECTORS = arrays(np.float32, st.integers(1, 20), elements=FLOATS)
INTEGERS = arrays(np.int32, 50, elements=st.integers(-(2**31), 2**31 - 1))


@given(arrays(np.float32, 9, elements=st.floats(-2000, 2000, width=32)))
def test_rounds_to_the_nearest_step(floats: np.ndarray) -> None:
    there = floats.copy()
    scales = Scales(FixedPoint(1e6, 4), 1, [there.view(np.int32)], "h0")
    scales.encode(0)
    assert (np.abs(there.view(np.int32) - floats.astype(np.float64) * 1e6) <= 0.5 + np.abs(floats) * 1e6 * 2**-23).all()
    scales.decode(0)
    assert np.abs(there - floats.astype(np.float64)).max() <= 0.51e-6 + np.abs(floats).max() * 2**-23


@given(INTEGERS, INTEGERS)
def test_a_sum_is_exact_or_refused(ours: np.ndarray, theirs: np.ndarray) -> None:
    exact = ours.astype(np.int64) + theirs
    fits = (np.abs(exact + 0.5) < 2**31).all()
    part = np.concatenate([[7], ours, [8]]).astype(np.int32)
    scales = Scales(FixedPoint(1.0, 4), 2, [part], "h0")
    if fits:
        scales.add(0, 1, theirs)
        assert part.tolist() == [7, *exact.tolist(), 8]
    else:
        with pytest.raises(OverflowError):
            scales.add(0, 1, theirs)


@pytest.mark.parametrize("value", [2148.0, -2149.0, math.inf, -math.inf, math.nan])
def test_what_does_not_fit_is_refused(value: float) -> None:
    floats = np.array([1.0, value, 2.0], np.float32)
    with pytest.raises(WorkerError) as caught:
        Scales(FixedPoint(1e6, 4), 1, [floats.view(np.int32)], "h3").encode(0)
    assert str(caught.value) == (
        f"h3: the gradient's element {value:.4g} times the scale 1e+06 does not fit 32 bits\n"
        "  fix: give the scheme a smaller scale"
    )


@given(VECTORS)
def test_an_exponent_is_above_every_element(floats: np.ndarray) -> None:
    e = exponent(floats, "h0")
    largest = float(np.abs(floats).max())
    assert largest < 2.0**e
    assert e == LOWEST or largest >= 2.0 ** (e - 1)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_an_exponent_of_no_number_is_refused(value: float) -> None:
    with pytest.raises(WorkerError, match="h3: an element of the gradient is no number"):
        exponent(np.array([1.0, value], np.float32), "h3")


@given(st.lists(arrays(np.float32, 7, elements=FLOATS), min_size=1, max_size=40))
def test_block_exponents_never_overflow_and_lose_little(gradients: list[np.ndarray]) -> None:
    """Any gradients of any number of workers: the sum fits, and is right to N/2 steps and float32's own precision."""
    world = len(gradients)
    exact = np.sum(np.array(gradients, np.float64), axis=0)
    e = max(exponent(floats, "h") for floats in gradients)
    parts = [floats.copy().view(np.int32) for floats in gradients]
    total = np.zeros(7, np.int32)
    scales = Scales(FixedPoint(None, 4), world, [*parts, total], "h")
    scales.agree(range(world + 1), np.full(world + 1, e, np.int32))
    for k, part in enumerate(parts):
        scales.encode(k)
        scales.add(world, 0, part)
    scales.decode(world)
    step = world * 2.0**e / 2**31 / (1 - 2.0**-20)
    allowed = world * step / 2 + 2**-22 * np.sum(np.abs(np.array(gradients, np.float64)), axis=0)
    assert (np.abs(total.view(np.float32) - exact) <= allowed + 1e-30).all()


@pytest.mark.parametrize("said", [LOWEST - 1, 129, 2**31 - 1, -(2**31)])
def test_an_exponent_that_no_float_has_is_refused(said: int) -> None:
    scales = Scales(FixedPoint(None, 4), 2, [np.zeros(4, np.int32)], "h0")
    with pytest.raises(WorkerError, match=rf"^h0: chunk 0 got the exponent {said} from a neighbour"):
        scales.agree([0], np.array([said], np.int32))
