"""Grouping does not change the model: sums come to what updates come to one by one (section 5.2)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.job import Training
from testbed.workloads.kinds.fabric.sums import Sums, history, rates, shares
from testbed.workloads.learning.training import descend, descend_together

FLOATS, WORLD = 7, 3


def test_shares_are_those_of_the_series() -> None:
    assert shares([1.0, 1.0, 1.0], 0.5) == ((1.75, 0.25), (1.5, 0.5), (1.0, 1.0))
    assert shares([1.0, 0.5], 0.0) == ((1.0, 0.0), (0.5, 0.5))
    assert history(0.5, 2) == (0.75, 0.25)
    assert rates(shares([1.0, 0.25, 0.5], 0.5), 0.5) == [1.0, 0.25, 0.5]


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_members_are_added_in_their_order_whichever_comes_first(order: tuple[int, ...]) -> None:
    values = np.array([[1e8], [-1e8], [1.0]], np.float32)
    sums = Sums(shares([1.0] * 3, 0.0), 1, 0.0)
    for count, at in enumerate(order):
        assert sums.is_complete is (count == 3)
        sums.add(at, values[at])
    assert sums.is_complete
    assert sums.floats.tolist() == [1.0], "(1e8 - 1e8) + 1, and not 1e8 + (1 - 1e8)"


def test_a_member_comes_once() -> None:
    sums = Sums(shares([1.0] * 2, 0.0), 1, 0.0)
    sums.add(1, np.ones(1, np.float32))
    with pytest.raises(ValueError, match="member 1 is there already"):
        sums.add(1, np.ones(1, np.float32))


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    momentum=st.sampled_from([0.0, 0.5, 0.9]),
    seed=st.integers(0, 99),
)
def test_any_grouping_equals_one_by_one(sizes: list[int], momentum: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    training = Training("lenet5", "digits", 1, 1, learning_rate=0.1, momentum=momentum, seed=1)
    start = random.normal(size=FLOATS).astype(np.float32)
    alone, velocity = start.copy(), np.zeros(FLOATS, np.float32)
    grouped, other_velocity = start.copy(), np.zeros(FLOATS, np.float32)
    for size in sizes:
        gradients = random.normal(size=(size, FLOATS)).astype(np.float32)
        for gradient in gradients:
            descend(training, alone, velocity, gradient, WORLD)
        sums = Sums(shares([1.0] * size, momentum), FLOATS, momentum)
        for at, gradient in enumerate(gradients):
            sums.add(at, gradient)
        if momentum:
            for_weights, for_velocity = np.split(sums.floats, 2)
            both = (for_weights, for_velocity)
            descend_together(training, grouped, other_velocity, both, history(momentum, size), WORLD)
            np.testing.assert_allclose(other_velocity, velocity, rtol=1e-5, atol=1e-6)
        else:
            descend(training, grouped, other_velocity, sums.floats, WORLD)
    np.testing.assert_allclose(grouped, alone, rtol=1e-5, atol=1e-6)
