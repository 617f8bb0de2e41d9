"""MCMC over strategies, as FlexFlow does it (TopoOpt, section 3.2): random changes, and worse ones at times.

A step gives a random operator other holders: all servers, one, or a block or stride of g servers, where g divides
their number. The change is kept with probability min(1, exp(-beta x increase of the cost)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from random import Random

from testbed.workloads.parallel.strategy import Holders, Strategy

HALF_PASS = 0.05
"""Increase, as a share of the first cost, that is kept half the time. FlexFlow's beta is open; the paper has none."""

Cost = Callable[[Strategy], float]
"""Seconds of an iteration; infinite if a strategy is impossible."""


@cache
def choices(servers: int) -> tuple[Holders, ...]:
    """List the holders that an operator may have: all, one, and each block or stride of g servers, g a divisor of n."""
    found: set[Holders] = set()
    for size in range(1, servers + 1):
        if servers % size == 0:
            found.update(tuple(range(first, first + size)) for first in range(0, servers, size))
            found.update(tuple(range(first, servers, servers // size)) for first in range(servers // size))
    return tuple(sorted(found))


class Walk:
    """Steps from strategy to strategy.

    Attributes:
        now: where it is, and ``now_s`` what that costs.
        best: the best since it began, and ``best_s`` what that costs.
        costs: each improvement of it: after how many steps, and what it costs.
    """

    def __init__(self, start: Strategy, cost: Cost, random: Random) -> None:
        self._random = random
        self._beta = 0.0
        self.begin(start, cost)

    def begin(self, start: Strategy, cost: Cost) -> None:
        """Go on from here, with another cost; beta stays that of the first."""
        self._cost = cost
        self.now = self.best = start
        self.now_s = self.best_s = cost(start)
        self._steps = 0
        self.costs = [[0, self.best_s]]

    def step(self) -> bool:
        """Propose a change; return whether it leads to a new best."""
        self._steps += 1
        if not self._beta and 0 < self.now_s < math.inf:
            self._beta = math.log(2) / (HALF_PASS * self.now_s)
        place = self._random.randrange(len(self.now.holders))
        others = [one for one in choices(self.now.servers) if one != self.now.holders[place]]
        proposed = self.now.moved(place, self._random.choice(others))
        proposed_s = self._cost(proposed)
        passes = self._random.random()  # drawn each time, so that the draws of a seed do not depend on costs
        if not (proposed_s <= self.now_s or passes < math.exp(-self._beta * (proposed_s - self.now_s))):
            return False
        self.now, self.now_s = proposed, proposed_s
        if proposed_s >= self.best_s:
            return False
        self.best, self.best_s = proposed, proposed_s
        self.costs.append([self._steps, proposed_s])
        return True


def search(start: Strategy, cost: Cost, steps: int, seed: int = 0) -> Walk:
    """Walk so many steps, on one network."""
    walk = Walk(start, cost, Random(seed))
    for _ in range(steps):
        walk.step()
    return walk
