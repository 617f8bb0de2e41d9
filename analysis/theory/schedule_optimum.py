"""The best schedule of a batch, by integer linear programming (MLfabric, section 10.1, eq. 12-17).

Which next hop each update takes, and at which rate it moves in each slot of time, is decided for all updates at once.
Its time grows exponentially, so it is for few updates: an oracle beside which MLfabric's own algorithms are held.

Variables are 0 or 1 where this says *whether*, and otherwise what moves in a slot, as a share of the largest update:
the solver's tolerances are for numbers about 1.

- ``hop[g, d]``: whether update g goes to d, the server or an aggregator (dst of section 10.1).
- ``sent[g, d, t]`` and ``summed[a, t]``: the rates r_g and r_a of eq. 12 and 13, as what they move in slot t.
- ``begun[a, t]``: whether aggregator a may send in slot t: all that it sums is there (eq. 14).
- ``ended[a, t]`` and ``committed[g, t]``: whether a's sum, or update g, is at the server at the end of slot t (eq. 15).

A transfer ends with the last slot in which it moves, so the result is exact where the slots divide all moments of the
best schedule, and else at most too long by a slot for each hop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Rates, Update

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint

Objective = Literal["average", "total"]
"""Eq. 17, of asynchronous SGD, or eq. 16, of synchronous SGD."""
_AMOUNTS = frozenset({"sent", "summed", "last"})
"""Variables that are no choices, but how much or how long."""
Terms = Mapping[int, float]
"""Factor of each variable in a sum, by variable."""


@dataclass(frozen=True)
class Slots:
    """Time, cut into slots of one length; ``count`` of them are enough for all transfers."""

    length_s: float
    count: int


@dataclass(frozen=True)
class Optimum:
    """The best schedule.

    Attributes:
        commits_s: by id, when an update is at the server, alone or in a sum.
        next_hops: by id, the node that it is sent to.
    """

    commits_s: Mapping[int, float]
    next_hops: Mapping[int, int]

    @property
    def average_s(self) -> float:
        """Eq. 17."""
        return sum(self.commits_s.values()) / len(self.commits_s)

    @property
    def total_s(self) -> float:
        """Eq. 16."""
        return max(self.commits_s.values())


def optimum(
    batch: Batch, topology: Topology, rates: Rates, slots: Slots, objective: Objective = "average"
) -> Optimum | None:
    """The best schedule of all updates of a batch; None where no schedule keeps all deadlines in these slots.

    Args:
        batch: with one server; nothing is dropped, and its replica is left out.
        rates: by directed link; a link that is not there has its own. They change at ends of slots alone.

    Raises:
        SchemeError: the batch has several servers, or momentum, of which section 10.1 knows nothing.
        TopologyError: there is no route.
    """
    if len(batch.servers) != 1 or batch.momentum:
        raise SchemeError(
            f"section 10.1 has one server and no momentum, and this batch {len(batch.servers)} and {batch.momentum:g}",
            fix="give one server, and momentum 0",
        )
    return _Program(batch, topology, rates, slots).solved(objective)


@dataclass
class _Rows:
    """Linear constraints: each the sum of some variables with factors, between two numbers."""

    terms: list[Terms] = field(default_factory=list)
    least: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)

    def add(self, terms: Terms, least: float = -np.inf, most: float = np.inf) -> None:
        self.terms.append(terms)
        self.least.append(least)
        self.most.append(most)

    def constraint(self, variables: int) -> LinearConstraint:
        from scipy.optimize import LinearConstraint  # here, for it takes longer to import than all of the harness
        from scipy.sparse import coo_array

        entries = [(row, column, factor) for row, one in enumerate(self.terms) for column, factor in one.items()]
        rows, columns, factors = zip(*entries, strict=True)
        matrix = coo_array((factors, (rows, columns)), shape=(len(self.terms), variables))
        return LinearConstraint(matrix.tocsr(), self.least, self.most)


class _Program:
    """The variables and constraints of one batch."""

    def __init__(self, batch: Batch, topology: Topology, rates: Rates, slots: Slots) -> None:
        self.updates, self.aggregators, self.slots = batch.updates, batch.aggregators, slots
        self.server = batch.servers[0]
        self.hops = (self.server, *batch.aggregators)
        self.unit_bits = 8 * max(update.sizes_bytes[0] for update in batch.updates)
        self.links = _Links(topology, rates, slots, self.unit_bits)
        self.names: dict[tuple[str, int, int, int], int] = {}
        self.most: list[float] = []
        self.rows = _Rows()
        for update in self.updates:
            self.rows.add({self._hop(update, hop): 1.0 for hop in self.hops}, 1, 1)
            self.rows.add({self._committed(update, t): 1.0 for t in range(self.slots.count)}, 1, 1)
        for aggregator in self.aggregators:
            self._sum(aggregator)
        for update, hop in product(self.updates, self.hops):
            self._sent(update, hop)
        self._capacities()
        if batch.delay_bound is not None:
            self._deadlines({update.id: update.version + batch.delay_bound - batch.version for update in self.updates})

    def solved(self, objective: Objective) -> Optimum | None:
        from scipy.optimize import Bounds, milp

        if objective == "average":
            weights = {i: end for update in self.updates for i, end in self._commit(update).items()}
        else:
            last = self._variable("last", 0)
            weights = {last: 1.0}
            for update in self.updates:
                self.rows.add(_less(weights, self._commit(update)), least=0)
        cost = np.zeros(len(self.most))
        cost[list(weights)] = list(weights.values())
        found = milp(
            cost,
            constraints=self.rows.constraint(len(self.most)),
            bounds=Bounds(0, np.array(self.most)),
            integrality=np.isfinite(self.most).astype(int),
            options={"mip_rel_gap": 0},
        )
        if found.x is None:
            return None
        ends = {
            update.id: max((found.x[i], end) for i, end in self._commit(update).items())[1] for update in self.updates
        }
        hops = {one.id: hop for one, hop in product(self.updates, self.hops) if found.x[self._hop(one, hop)] > 0.5}
        return Optimum(ends, hops)

    # Variables

    def _variable(self, what: str, a: int, b: int = 0, t: int = 0) -> int:
        key = (what, a, b, t)
        if key not in self.names:
            self.names[key] = len(self.most)
            self.most.append(np.inf if what in _AMOUNTS else 1.0)
        return self.names[key]

    def _hop(self, update: Update, hop: int) -> int:
        return self._variable("hop", update.id, hop)

    def _committed(self, update: Update, t: int) -> int:
        return self._variable("committed", update.id, 0, t)

    def _moved(self, what: str, a: int, b: int, until: int) -> dict[int, float]:
        return {self._variable(what, a, b, t): 1.0 for t in range(until)}

    def _by(self, what: str, a: int, t: int) -> dict[int, float]:
        """Whether it happens by the end of slot ``t``."""
        return {self._variable(what, a, 0, early): 1.0 for early in range(t + 1)}

    def _commit(self, update: Update) -> dict[int, float]:
        return {self._committed(update, t): (t + 1) * self.slots.length_s for t in range(self.slots.count)}

    def _sum(self, aggregator: int) -> None:
        """A sum is sent after all of it is there, and is at the server when all of it was sent."""
        self.rows.add(self._by("ended", aggregator, self.slots.count - 1), 0, 1)
        for t in range(self.slots.count):
            sent = self._variable("summed", aggregator, 0, t)
            begun = self._variable("begun", aggregator, 0, t)
            self.rows.add({sent: 1.0, begun: -self.links.least(aggregator, self.server, t)}, most=0)

    def _sent(self, update: Update, hop: int) -> None:
        size, chosen = 8 * update.sizes_bytes[0] / self.unit_bits, self._hop(update, hop)
        for t in range(self.slots.count):
            if t * self.slots.length_s < update.ready_s:
                self.rows.add({self._variable("sent", update.id, hop, t): 1.0}, 0, 0)
            committed = self._by("committed", update.id, t)
            if hop == self.server:
                sent = self._moved("sent", update.id, hop, t + 1)
                self.rows.add(_less(sent, {**_times(committed, size), chosen: size}), least=-size)
                continue
            ended = self._by("ended", hop, t)
            self.rows.add(_less(ended, {**committed, chosen: 1.0}), least=-1)
            summed = self._moved("summed", hop, 0, t + 1)
            self.rows.add(_less(summed, {**_times(ended, size), chosen: size}), least=-size)
            if hop != update.worker:
                sent = self._moved("sent", update.id, hop, t)
                begun = self._variable("begun", hop, 0, t)
                self.rows.add(_less(sent, {begun: size, chosen: size}), least=-size)

    def _capacities(self) -> None:
        for t in range(self.slots.count):
            loads: dict[int, dict[int, float]] = {}
            for update, hop in product(self.updates, self.hops):
                for link in self.links.path(update.worker, hop):
                    loads.setdefault(link, {})[self._variable("sent", update.id, hop, t)] = 1.0
            for aggregator in self.aggregators:
                for link in self.links.path(aggregator, self.server):
                    loads.setdefault(link, {})[self._variable("summed", aggregator, 0, t)] = 1.0
            for link, terms in loads.items():
                self.rows.add(terms, most=self.links.share(link, t))

    def _deadlines(self, deadlines: Mapping[int, int]) -> None:
        """An update that is committed in slot t has its place among the first dl(g) (eq. 9). Those that are committed
        at once have their places by their deadlines."""
        everyone = len(self.updates)
        for update, t in product(self.updates, range(self.slots.count)):
            deadline = deadlines[update.id]
            terms = {self._committed(update, t): float(everyone)}
            for other in self.updates:
                if other.id != update.id:
                    first = deadlines[other.id] <= deadline
                    terms |= self._by("committed", other.id, t if first else t - 1)
            self.rows.add(terms, most=deadline - 1 + everyone)


class _Links:
    """Capacity of links in each slot, as a share of ``unit_bits``."""

    def __init__(self, topology: Topology, rates: Rates, slots: Slots, unit_bits: float) -> None:
        self.topology, self.rates, self.slots, self.unit_bits = topology, rates, slots, unit_bits

    def path(self, source: int, target: int) -> Sequence[int]:
        return self.topology.paths(source, target)[0].links

    def share(self, link: int, t: int) -> float:
        """Return what a directed link carries at most in slot ``t``."""
        begin_s = t * self.slots.length_s
        steps = self.rates.get(link, ((0.0, float(self.topology.links[link // 2].rate_bps)),))
        bps = [rate for from_s, rate in steps if from_s <= begin_s + 1e-9][-1]
        return bps * self.slots.length_s / self.unit_bits

    def least(self, source: int, target: int, t: int) -> float:
        """Return what a path carries at most in slot ``t``."""
        return min(self.share(link, t) for link in self.path(source, target))


def _times(terms: Terms, factor: float) -> dict[int, float]:
    return {i: one * factor for i, one in terms.items()}


def _less(terms: Terms, others: Terms) -> dict[int, float]:
    """Subtract ``others`` from ``terms``; no variable is in both."""
    return {**terms, **_times(others, -1)}
