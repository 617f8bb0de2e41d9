"""Divergence: how far the weights of the servers and of the replica may be apart (MLfabric, sections 3.3 and 5.3).

Both apply the same updates in the same order (eq. 2), and the replica is behind by some of them. The weights differ by
the sum of the changes that the replica has not made. A change h is momentum times the one before it plus an
update, so its norm is at most ``momentum * ||h before|| + ||u||``. The sum of these bounds is eq. 11: the scheduler
knows norms alone, and ``sqrt((a + b + ..)^2)`` is what remains of its squares and products. It holds for any lead:

    (gamma + .. + gamma^n) ||h0|| + sum over i of c_(n-i) ||u_i||,   c_j = 1 + gamma + .. + gamma^j
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from math import fsum, inf

ROUNDING = 1e-9
"""Share of its bound by which a divergence may be beyond it and still count as within it."""


def most_within(bound: float) -> float:
    """Return the largest divergence that counts as within this bound."""
    return bound * (1 + ROUNDING)


class Lead:
    """Lead of the servers over the replica, by how many updates of one order each of them has.

    Args:
        most: the largest divergence, Div_max; None for no bound.
        most_updates: the largest number of updates by which the replica may be behind; None for no bound.
        history: norm of the last change of the weights before these updates, h0 of eq. 7, or an upper bound of it.
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
