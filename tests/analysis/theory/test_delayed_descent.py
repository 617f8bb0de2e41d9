"""Descent on stale gradients: against a plain loop, and against what more steps must do."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.analysis.theory.delayed_descent import Delays, Problem, errors, problem

SMALL = problem(seed=2, samples=50, features=3)


def loop(asked: Problem, delay: int, steps: int, seed: int, c: float) -> float:
    """One run in which every gradient is equally stale."""
    draw = np.random.default_rng([seed, 0])
    known = [np.zeros(asked.samples.shape[1])]
    for t in range(1, steps + 1):
        row = draw.integers(0, len(asked.samples), 1)[0]
        sample, kind = asked.samples[row], asked.classes[row]
        stale = known[max(0, t - 1 - delay)]
        gradient = -kind * sample / (1 + np.exp(kind * stale @ sample))
        known.append(known[-1] - gradient / (asked.smoothness + c * np.sqrt(t + delay)))
    return float(asked.losses(np.mean(known[1:], axis=0)[None])[0] - asked.losses(asked.best()[None])[0])


@pytest.mark.parametrize("delay", [0, 1, 5])
def test_equal_delays_are_a_plain_loop(delay: int) -> None:
    found = errors(SMALL, Delays(delay, 0), 40, 1, seed=3, c=0.2)
    assert found == pytest.approx([loop(SMALL, delay, 40, seed=3, c=0.2)])


def test_the_least_loss_has_no_gradient() -> None:
    every = np.arange(len(SMALL.samples))
    gradients = SMALL.gradients(np.tile(SMALL.best(), (len(every), 1)), every)
    assert gradients.mean(axis=0) == pytest.approx(0, abs=1e-12)


def test_a_gradient_is_the_slope_of_the_loss() -> None:
    one = Problem(SMALL.samples[:1], SMALL.classes[:1])
    at, step = np.array([0.3, -0.2, 0.5]), 1e-6
    ends = np.array([at + sign * step * unit for unit in np.eye(3) for sign in (1, -1)])
    above, below = one.losses(ends).reshape(3, 2).T
    assert one.gradients(at[None], np.array([0]))[0] == pytest.approx((above - below) / (2 * step), rel=1e-5)


def test_more_steps_get_nearer() -> None:
    few, many = (errors(SMALL, Delays(4, 2), steps, 16, seed=1, c=0.1).mean() for steps in (100, 800))
    assert 0 < many < few


def test_the_same_seed_is_the_same() -> None:
    once, again = (errors(SMALL, Delays(4, 2), 30, 8, seed=5) for _ in range(2))
    assert np.array_equal(once, again)
