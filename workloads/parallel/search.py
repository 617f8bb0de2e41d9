"""Search for strategies on one network, and strategy and network found in turn (TopoOpt, section 3.2).

MCMC over strategies, as FlexFlow does it: random changes, and worse ones at times. A step gives a random operator other
holders: all servers, one, or a block or stride of g servers, where g divides their number. The change is kept with
probability min(1, exp(-beta x increase of the cost)).

TopologyFinder makes a network for the strategy at each improvement, and after 50 steps without one, "to escape local
optimums". A *round* ends with those 50 steps. An alternation ends when two rounds have gained less than 0.1 %, or after
k = 10. While steps are left, another begins, as in FlexFlow with other initial strategies. The best so far never rises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from random import Random

from testbed.base.errors import SpecError
from testbed.topologies.topoopt.demand import Demand
from testbed.topologies.topoopt.finder import Found
from testbed.workloads.parallel.network import Network
from testbed.workloads.parallel.operators import Model
from testbed.workloads.parallel.prediction import Machine, Prediction, iteration_s, predict
from testbed.workloads.parallel.strategy import Holders, Strategy, demand_of, fitting, is_silent

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


MOST_STEPS = 10**6
LEAST_GAIN = 0.001
"""Least gain of a round, as a share of the best cost before it: a round that gains less counts as idle."""
IDLE_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Effort:
    """
    Attributes:
        steps: of MCMC in all, at most.
        rounds: k, of an alternation, at most.
        patience: steps without an improvement that end a round.
    """

    steps: int = 2000
    seed: int = 0
    rounds: int = 10
    patience: int = 50

    def __post_init__(self) -> None:
        if not 0 <= self.steps <= MOST_STEPS:
            raise SpecError(f"search: steps is {self.steps:,}", fix=f"give 0 to {MOST_STEPS:,} steps")
        for name in ("rounds", "patience"):
            if getattr(self, name) < 1:
                raise SpecError(f"search: {name} is {getattr(self, name)}", fix=f"give {name} of 1 or more")
        if self.seed < 0:
            raise SpecError(f"search: seed is {self.seed}", fix="give a seed of 0 or more")


@dataclass(frozen=True, eq=False)
class Planned:
    """A strategy, the network that was found for it, and what an iteration takes on it."""

    strategy: Strategy
    found: Found
    network: Network
    prediction: Prediction


@dataclass(frozen=True, eq=False)
class Searched:
    """
    Attributes:
        best: of all strategies for which a network was found.
        costs: each improvement of it: after how many steps, and the seconds of an iteration; falling.
        rounds: the seconds of the best so far after each round, of all alternations.
    """

    best: Planned
    costs: tuple[tuple[int, float], ...]
    steps: int
    rounds: tuple[float, ...]


@dataclass(frozen=True)
class Planner:
    """Planner of networks for a model's strategies, with predictions.

    Attributes:
        finder: TopologyFinder for servers of some degree (:func:`testbed.topologies.topoopt.finder.find`).
        network: of what it finds, with the rate and the goodput of circuits (:func:`.network.of_found`).
    """

    model: Model
    finder: Callable[[Demand], Found]
    network: Callable[[Found], Network]
    machine: Machine

    def plan(self, strategy: Strategy) -> Planned:
        """Find a network. Raises SpecError: the strategy sends nothing, so there is none to find."""
        found = self.finder(demand_of(self.model, strategy))
        network = self.network(found)
        return Planned(strategy, found, network, predict(self.model, strategy, network, self.machine))

    def cost(self, network: Network) -> Cost:
        """Return the cost function of strategies on a network. A strategy that sends nothing costs infinity: it needs
        one server and no cluster."""

        def cost(strategy: Strategy) -> float:
            if is_silent(self.model, strategy):
                return math.inf
            return iteration_s(self.model, strategy, network, self.machine)

        return cost


def alternate(planner: Planner, servers: int, effort: Effort) -> Searched:
    """Alternate, starting in turn from data parallelism, as far as it fits (:func:`.strategy.fitting`), and from the
    strategy that section 2.2 calls common: tables on single servers, and all else on all.

    Raises:
        SpecError: nothing fits into the servers' memory.
    """
    planned = [planner.plan(start) for start in _starts(planner, servers)]
    alternations = _Alternations(planner, planned, effort)
    for start in cycle(planned):
        if alternations.steps == effort.steps:
            break
        alternations.run(start)
    return alternations.searched()


def _starts(planner: Planner, servers: int) -> list[Strategy]:
    memory_bytes = planner.machine.memory_bytes
    both = (fitting(planner.model, servers, memory_bytes, place_tables=tables) for tables in (False, True))
    return list(dict.fromkeys(both))


def search_on(planner: Planner, network: Network, effort: Effort) -> Walk:
    """Take as many steps on a network that stays as it is, from the better of the same two strategies, as section 5.1
    does for the networks that TopoOpt is compared with.

    Raises:
        SpecError: nothing fits into the servers' memory.
    """
    cost = planner.cost(network)
    return search(min(_starts(planner, network.servers), key=cost), cost, effort.steps, effort.seed)


class _Alternations:
    """The state that alternations share: the best so far, and the steps that were taken."""

    def __init__(self, planner: Planner, starts: Sequence[Planned], effort: Effort) -> None:
        self.planner, self.effort = planner, effort
        self.random = Random(effort.seed)
        self.best = min(starts, key=lambda planned: planned.prediction.iteration_s)
        self.costs = [(0, self.best_s)]
        self.rounds: list[float] = []
        self.steps = 0

    @property
    def best_s(self) -> float:
        return self.best.prediction.iteration_s

    def searched(self) -> Searched:
        return Searched(self.best, tuple(self.costs), self.steps, tuple(self.rounds))

    def run(self, start: Planned) -> None:
        """Run one alternation."""
        walk = Walk(start.strategy, self.planner.cost(start.network), self.random)
        idle = 0
        for _ in range(self.effort.rounds):
            if idle == IDLE_ROUNDS or self.steps == self.effort.steps:
                return
            before_s = self.best_s
            self._round(walk)
            self.rounds.append(self.best_s)
            idle = 0 if before_s - self.best_s >= LEAST_GAIN * before_s else idle + 1

    def _round(self, walk: Walk) -> None:
        without = 0
        while without < self.effort.patience and self.steps < self.effort.steps:
            self.steps += 1
            without += 1
            if walk.step():
                without = 0
                planned = self._planned(walk)
                if planned.prediction.iteration_s <= walk.now_s:
                    self._move(walk, planned)
        self._move(walk, self._planned(walk))

    def _planned(self, walk: Walk) -> Planned:
        """Find the network for the strategy that the walk has reached. The best pair so far is kept."""
        planned = self.planner.plan(walk.now)
        if planned.prediction.iteration_s < self.best_s:
            self.best = planned
            self.costs.append((self.steps, self.best_s))
        return planned

    def _move(self, walk: Walk, planned: Planned) -> None:
        walk.begin(planned.strategy, self.planner.cost(planned.network))
