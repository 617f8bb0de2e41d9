"""Embedding of hosts: coordinates whose distances agree with probed ones, so that noise evens out.

It minimises equation 4.1 of the PHub thesis, the sum over pairs of (d_ij^alpha + h_i + h_j - p_ij)^2, by Adam. The
thesis gives neither Adam's settings nor the number of dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STARTS, STEPS = 5, 1000
RATE, DECAY_1, DECAY_2, EPSILON = 0.05, 0.9, 0.999, 1e-8
"""Settings of Adam: the learning rate; the others are those of Kingma and Ba 2015."""
_SPREAD = 0.5
"""Standard deviation of the first coordinates; the mean probed distance is 1."""
_LEAST = 1e-6
"""Distance below which hosts are at one place, where the loss has no gradient."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """Places of n hosts, in units of the mean probed distance (to the power of 1 / alpha).

    Attributes:
        coordinates: float64[n, dimensions].
        startup: float64[n], each host's fixed part of its distances; zeros unless asked for.
        loss: value of equation 4.1, of distances that were divided by their mean.
    """

    coordinates: Floats
    startup: Floats
    loss: float

    @property
    def distances(self) -> Floats:
        """Euclidean distances between the hosts, float64[n, n]."""
        return lengths(self.coordinates)


def embed(
    distances: Floats, *, alpha: float = 1.0, dimensions: int = 2, startup: bool = False, seed: int = 0
) -> Embedding:
    """Return the best embedding of ``STARTS`` random starts.

    Args:
        distances: float64[n, n], symmetric; NaN where a pair did not measure any. The diagonal does not count. At least
            one distance is above 0.
        alpha: 1 fits distances as they are, 2 their square roots, which draws near hosts together.
        startup: whether each host has a fixed part of its distances, h >= 0.
    """
    hosts = len(distances)
    known = ~np.isnan(distances)
    np.fill_diagonal(known, False)
    probed = np.where(known, distances, 0.0) / distances[known].mean()
    random = np.random.default_rng(seed)
    places = _SPREAD * random.standard_normal((STARTS, hosts, dimensions))
    fixed = np.zeros((STARTS, hosts))
    moves = [_Adam(places.shape), _Adam(fixed.shape)]
    for step in range(1, STEPS + 1):
        apart = np.maximum(lengths(places), _LEAST)
        wrong = known * (apart**alpha + fixed[:, :, None] + fixed[:, None, :] - probed)
        pull = 2 * alpha * wrong * apart ** (alpha - 2)
        places -= moves[0].move(pull.sum(axis=2, keepdims=True) * places - pull @ places, step)
        if startup:
            fixed = np.maximum(0.0, fixed - moves[1].move(2 * wrong.sum(axis=2), step))
    losses = [loss(probed, places[start], fixed[start], known, alpha) for start in range(STARTS)]
    best = int(np.argmin(losses))
    return Embedding(places[best], fixed[best], losses[best])


def loss(probed: Floats, places: Floats, fixed: Floats, known: NDArray[np.bool_], alpha: float) -> float:
    """Compute equation 4.1 over the ``known`` pairs: probed and known are [n, n], places [n, dimensions], fixed [n]."""
    wrong = lengths(places) ** alpha + fixed[:, None] + fixed[None, :] - probed
    return float(np.sum(wrong[known] ** 2) / 2)


def lengths(places: Floats) -> Floats:
    """Compute the Euclidean distances between places [..., n, dimensions]: [..., n, n]."""
    squares = (places**2).sum(axis=-1)
    apart = squares[..., :, None] + squares[..., None, :] - 2 * places @ places.swapaxes(-1, -2)
    result: Floats = np.sqrt(np.maximum(apart, 0.0))
    return result


class _Adam:
    """Steps of Adam for one array."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._first, self._second = np.zeros(shape), np.zeros(shape)

    def move(self, gradient: Floats, step: int) -> Floats:
        """Return the amount to subtract in the ``step``-th step, counted from 1."""
        self._first += (1 - DECAY_1) * (gradient - self._first)
        self._second += (1 - DECAY_2) * (gradient**2 - self._second)
        root = np.sqrt(self._second / (1 - DECAY_2**step))
        result: Floats = RATE * self._first / (1 - DECAY_1**step) / (root + EPSILON)
        return result
