"""Circuits for what is still to be sent, within an iteration (TopoOpt, Appendix D: Algorithm 5, TopoOpt-reconfig).

The algorithm is greedy on the utility of equation 1, the sum over circuits of T(i, j) x Discount(L(i, j)): the next
circuit goes to the pair that gains most. The l-th circuit of a pair gains T x (Discount(l) - Discount(l - 1)).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.panels import Matching

Discount = Literal["half", "one", "linear"]
"""``half``: equation 2, 2^-1 + ... + 2^-l. ``one``: SiP-ML's (Appendix E), without a discount: each circuit gains T.
``linear``: the l-th circuit gains T (d - l + 1) / d."""
DISCOUNTS: tuple[Discount, ...] = get_args(Discount)

_GAIN: dict[Discount, Callable[[int, int, int], int]] = {
    "half": lambda sent, have, degree: sent << (degree - have),
    "one": lambda sent, _have, _degree: sent,
    "linear": lambda sent, have, degree: sent * (degree - have),
}
"""Gain of the next circuit of a pair with ``have`` circuits, in a unit of its own for each discount, as whole
numbers."""


def reconfigured(unsent_bytes: NDArray[np.int64], degree: int, discount: Discount = "half") -> tuple[Matching, ...]:
    """Return the circuits of :func:`circuits`, by panel."""
    panels: list[list[tuple[int, int]]] = [[] for _ in range(degree)]
    for i, j, panel in circuits(unsent_bytes, degree, discount):
        panels[panel].append((i, j))
    return tuple(tuple(sorted(pairs)) for pairs in panels)


def circuits(unsent_bytes: NDArray[np.int64], degree: int, discount: Discount = "half") -> list[tuple[int, int, int]]:
    """Return the circuits in the order in which they are chosen: two servers, and the panel.

    A circuit is full duplex: a pair's demand is that of both directions, and tx and rx are one port. It takes the
    lowest panel on which both servers have their ports free; a pair without one is skipped. The lower pair goes first
    of those that gain alike.

    Args:
        unsent_bytes: T, int64[n, n], by source and destination.
    """
    both = unsent_bytes + unsent_bytes.T
    gain = _GAIN[discount]
    todo = [(-gain(int(both[i, j]), 0, degree), i, j, 0) for i, j in np.argwhere(both).tolist() if i < j]
    heapq.heapify(todo)
    free = [set(range(degree)) for _ in unsent_bytes]
    found = []
    while todo:
        _, i, j, have = heapq.heappop(todo)
        if common := free[i] & free[j]:
            panel = min(common)
            free[i].remove(panel)
            free[j].remove(panel)
            found.append((i, j, panel))
            heapq.heappush(todo, (-gain(int(both[i, j]), have + 1, degree), i, j, have + 1))
    return found
