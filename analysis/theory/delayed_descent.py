"""Descent on stale gradients, whose delays are drawn from an interval: what eq. 3 and 4 of MLfabric are about.

Logistic regression, a convex loss. Each step uses the gradient of one sample, computed on the weights of tau steps
before, with the rate 1 / (L + c sqrt(t + tau)) of eq. 21. tau is uniform in ``mean - spread .. mean + spread`` (section
3.1). Eq. 4 bounds the error of the mean of all weights by O(spread sqrt(t + mean - spread) / t).

The paper's proof does not lead there: its eq. 26 takes a sum whose first term, (6 mean + 6 mean^2 - 2), has no spread,
for O(spread ...). This module computes what happens on one problem, with delays drawn as the paper has them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Samples in rows, and their classes -1 or 1."""

    samples: Floats
    classes: Floats

    @property
    def smoothness(self) -> float:
        """L: no sample's gradient changes faster."""
        return float((self.samples**2).sum(axis=1).max() / 4)

    def losses(self, weights: Floats) -> Floats:
        """Compute for each row of weights the mean loss of all samples."""
        found: Floats = np.logaddexp(0, -(weights @ self.samples.T) * self.classes).mean(axis=1)
        return found

    def gradients(self, weights: Floats, chosen: NDArray[np.int64]) -> Floats:
        """Compute for each row of weights the gradient of one sample."""
        samples, classes = self.samples[chosen], self.classes[chosen]
        share = classes / (1 + np.exp((weights * samples).sum(axis=1) * classes))
        found: Floats = -share[:, None] * samples
        return found

    def best(self) -> Floats:
        """The weights of the least loss, by Newton's method."""
        weights = np.zeros(self.samples.shape[1])
        for _ in range(NEWTON_STEPS):
            share = 1 / (1 + np.exp(self.samples @ weights * self.classes))
            gradient = -(share * self.classes) @ self.samples / len(self.samples)
            curvature = (self.samples.T * (share * (1 - share))) @ self.samples / len(self.samples)
            weights = weights - np.linalg.solve(curvature, gradient)
        return weights


NEWTON_STEPS = 30
"""The error is squared with each, so they are enough for all digits."""


def problem(seed: int, samples: int = 400, features: int = 10) -> Problem:
    """Samples of a normal distribution, whose classes a line tells with some mistakes: so the least loss is finite."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(samples, features)) / np.sqrt(features)
    line = 4 * draw.normal(size=features)
    classes = np.where(draw.random(samples) < 1 / (1 + np.exp(-rows @ line)), 1.0, -1.0)
    return Problem(rows, classes)


@dataclass(frozen=True)
class Delays:
    """Uniform in the whole numbers from ``mean - spread`` to ``mean + spread``, in updates."""

    mean: int
    spread: int


def errors(asked: Problem, delays: Delays, steps: int, runs: int, seed: int, c: float = 1.0) -> Floats:
    """Compute for each run how much more than the least the loss is, of the mean of all weights after so many steps.

    Runs with the same seed draw the same samples, whatever the delays are.
    """
    draw, drawn = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    most = delays.mean + delays.spread
    features = asked.samples.shape[1]
    known = np.zeros((most + 1, runs, features))
    """Weights of each run, by step modulo the array's length."""
    weights, total = np.zeros((runs, features)), np.zeros((runs, features))
    every = np.arange(runs)
    for t in range(1, steps + 1):
        tau = drawn.integers(delays.mean - delays.spread, most, runs, endpoint=True)
        stale = known[np.maximum(t - 1 - tau, 0) % (most + 1), every]
        gradients = asked.gradients(stale, draw.integers(0, len(asked.samples), runs))
        weights = weights - gradients / (asked.smoothness + c * np.sqrt(t + tau))[:, None]
        known[t % (most + 1)] = weights
        total += weights
    least = asked.losses(asked.best()[None])[0]
    found: Floats = asked.losses(total / steps) - least
    return found
