"""Shares of each update of a group in its sums, chosen so that weights change as they would by one update after
another.

With momentum gamma, velocity v and weights w, an update g of rate r changes them to v' = gamma v + r g and w' = w - v'
(eq. 2; the learning rate and 1/N are left out here, for they multiply all of it). After m of them, g_1 to g_m::

    v' = gamma^m v + sum gamma^(m-j) r_j g_j
    w' = w - (gamma + .. + gamma^m) v - sum (1 + gamma + .. + gamma^(m-j)) r_j g_j

So without momentum one sum is enough, and with it there are two. The decision of why is in
docs/decisions/mlfabric-aggregation.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Share = tuple[float, float]
"""The factor of an update in the sum for the weights, and in that for the velocity."""


def shares(rates: Sequence[float], momentum: float) -> tuple[Share, ...]:
    """Compute the shares of each update of a group, in its order; ``rates`` are the ratios of their learning rates to
    the workload's."""
    last = len(rates) - 1
    return tuple((rate * _series(momentum, last - at), rate * momentum ** (last - at)) for at, rate in enumerate(rates))


def rates(parts: Sequence[Share], momentum: float) -> list[float]:
    """Compute the ratios of learning rates of which :func:`shares` made these; for an update alone, its factor."""
    last = len(parts) - 1
    return [weights / _series(momentum, last - at) for at, (weights, _) in enumerate(parts)]


def history(momentum: float, updates: int) -> tuple[float, float]:
    """Return the factors of the velocity before a group of so many updates: in the change of the weights, and in the
    velocity after it."""
    return _series(momentum, updates) - 1.0, momentum**updates


def _series(momentum: float, last: int) -> float:
    """Compute 1 + gamma + .. + gamma^last."""
    return float(sum(momentum**power for power in range(last + 1)))


class Sums:
    """The sums of one group, made in the order of its members, whichever comes first.

    Attributes:
        floats: one sum after the other.
    """

    def __init__(self, parts: Sequence[Share], floats: int, momentum: float) -> None:
        self._parts, self.count = parts, 2 if momentum else 1
        self.floats: Floats = np.zeros(self.count * floats, np.float32)
        self._early: dict[int, Floats] = {}
        self._next = 0

    @property
    def is_complete(self) -> bool:
        return self._next == len(self._parts)

    def add(self, at: int, update: Floats) -> None:
        """Add the update of the member ``at``, which is there, as soon as all before it are added.

        Raises:
            ValueError: it was there before.
        """
        if at < self._next or at in self._early:
            raise ValueError(f"member {at} is there already")
        self._early[at] = update
        while (update_ := self._early.pop(self._next, None)) is not None:
            for total, share in zip(np.split(self.floats, self.count), self._parts[self._next], strict=False):
                total += update_ if share == 1.0 else np.float32(share) * update_
            self._next += 1
