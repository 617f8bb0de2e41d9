"""Divergence: how far the weights of the servers and of the replica may be apart (MLfabric, sections 3.3 and 5.3).

Both apply the same updates in the same order (eq. 2), and the replica is behind by some of them. The weights differ by
the sum of the changes that the replica has not made. A change h is momentum times the one before it plus an
update, so its norm is at most ``momentum * ||h before|| + ||u||``. The sum of these bounds is eq. 11: the scheduler
knows norms alone, and ``sqrt((a + b + ..)^2)`` is what remains of its squares and products. It holds for any lead:

    (gamma + .. + gamma^n) ||h0|| + sum over i of c_(n-i) ||u_i||,   c_j = 1 + gamma + .. + gamma^j
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import fsum, inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
ROUNDING = 1e-9
"""Share of its bound by which a divergence may be beyond it and still count as within it."""


def most_within(bound: float) -> float:
    """Return the largest divergence that counts as within this bound."""
    return bound * (1 + ROUNDING)


def changes(history: float, norms: Sequence[float], momentum: float) -> list[float]:
    """Return upper bounds of the norms of the changes of the weights that some updates make, one after another.

    Args:
        history: norm of the change before them, h0 of eq. 7, or an upper bound of it.
        norms: of the updates, in their order.
        momentum: gamma of eq. 2.
    """
    found = []
    for norm in norms:
        history = momentum * history + norm
        found.append(history)
    return found


def bound(history: float, norms: Sequence[float], momentum: float, replicated: int = 0) -> float:
    """Return an upper bound of the distance of two models: one has all of some updates, and the other the first of them
    (eq. 11).

    Args:
        history: as for :func:`changes`: of the last change before all of them.
        norms: of the updates, in the order in which both apply them.
        momentum: gamma of eq. 2.
        replicated: how many of them the second model has.
    """
    return fsum(changes(history, norms, momentum)[replicated:])


class Lead:
    """Lead of the servers over the replica, by how many updates of one order each of them has.

    Args:
        most: the largest divergence, Div_max; None for no bound.
        most_updates: the largest number of updates by which the replica may be behind; None for no bound.
        history: as for :func:`changes`.
        momentum: gamma of eq. 2.
    """

    def __init__(
        self, most: float | None, most_updates: int | None, history: float = 0.0, momentum: float = 0.0
    ) -> None:
        self._most = inf if most is None else most_within(most)
        self._most_updates = most_updates
        self._history, self._momentum = history, momentum
        self._changes: list[float] = []
        self._moved = [0.0]

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, norms: Iterable[float]) -> None:
        """Append the norms of the updates that come next, one after another."""
        for norm in norms:
            self._history = self._momentum * self._history + norm
            self._add(self._history)

    def pass_over(self, updates: int) -> None:
        """Append so many updates that change nothing."""
        for _ in range(updates):
            self._add(0.0)

    def _add(self, change: float) -> None:
        self._changes.append(change)
        self._moved.append(self._moved[-1] + change)

    def divergence(self, replicated: int, committed: int) -> float:
        """Return the upper bound of the divergence (eq. 11)."""
        return fsum(self._changes[replicated:committed])

    def is_beyond(self, replicated: int, committed: int) -> bool:
        """Whether the bound is broken."""
        is_many = self._most_updates is not None and committed - replicated > self._most_updates
        return is_many or self.divergence(replicated, committed) > self._most

    def needed(self, committed: int) -> int:
        """Return how many updates the replica must have before the servers have so many: all but one at most, for an
        update that is beyond the bound alone goes through."""
        least = bisect_left(self._moved, self._moved[committed] - self._most)
        if self._most_updates is not None:
            least = max(least, committed - self._most_updates)
        return max(0, min(least, committed - 1))


def exact(history: Vector, ahead: Sequence[Vector], behind: Sequence[Vector], momentum: float) -> float:
    """Compute the distance of two models that were the same and then applied different updates, or others in their
    order (eq. 6).

    Args:
        history: the change of the weights before, h0 of eq. 5.
        ahead: the updates of the one, in their order.
        behind: those of the other.
        momentum: gamma of eq. 2.
    """
    return float(np.linalg.norm(_moved(history, ahead, momentum) - _moved(history, behind, momentum)))


def _moved(history: Vector, updates: Sequence[Vector], momentum: float) -> Vector:
    """Return how far a model is from where it was, by eq. 2."""
    weights = np.zeros_like(history)
    for update in updates:
        history = update + momentum * history
        weights = weights + history
    return weights
