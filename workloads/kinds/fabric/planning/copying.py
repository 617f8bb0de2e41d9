"""Updates that are still to go to the replica, and their ways there. Pure logic, no I/O.

An update is behind from when its way to the server is settled until that to the replica is. A batch sends the replica
what the bound needs, and what is there in time anyway; the others wait for the next one
(:mod:`~testbed.workloads.kinds.fabric.scheduling.replication`). Once nothing is left to compute, all of it goes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from testbed.workloads.kinds.fabric.plan import Options
from testbed.workloads.kinds.fabric.planning.settled import Unit, units
from testbed.workloads.kinds.fabric.scheduling.aggregation import Destination, aggregate
from testbed.workloads.kinds.fabric.scheduling.model import Replication, Update, Way
from testbed.workloads.kinds.fabric.scheduling.network import Network


class Copying:
    """The updates that the replica lacks.

    Attributes:
        units: what is planned and not settled, in order.
    """

    def __init__(self, replica: int, options: Options, momentum: float) -> None:
        self._replica, self._options, self._momentum = replica, options, momentum
        self._behind: dict[int, tuple[Update, float]] = {}
        """Updates by number, in order, with the ratio of their learning rate to the workload's."""
        self._history = 0.0
        self.units: list[Unit] = []

    @property
    def start_s(self) -> float:
        """When the next planned unit is to begin; infinity where none is."""
        return min((unit.start_s for unit in self.units), default=math.inf)

    def sent(self, update: Update, rate: float) -> None:
        """Note that the way of an update to the server is settled; it is the next one in order."""
        self._behind[update.id] = update, rate

    def asked(self, aggregators: Sequence[int], now_s: float) -> Replication:
        """Return what a batch has to plan for the replica, besides its own updates."""
        most, most_updates = self._options.divergence_bound, self._options.divergence_updates
        return Replication(self._replica, tuple(aggregators), self._waiting(now_s), most, most_updates, self._history)

    def _waiting(self, now_s: float) -> tuple[Update, ...]:
        return tuple(replace(update, ready_s=now_s) for update, _ in self._behind.values())

    def planned(self, way: Way) -> None:
        """Store the planned way to the replica."""
        self.units = units(way, (self._replica,))

    def plan_all(self, aggregators: Sequence[int], network: Network, now_s: float) -> None:
        """Plan all that is behind; nothing else is to come."""
        target = Destination((self._replica,), tuple(aggregators), self._momentum, is_replica=True)
        self.planned(aggregate(self._waiting(now_s), target, network))

    def due(self, until_s: float) -> list[Unit]:
        """Take the units that are to begin by then, and those before them in the order."""
        count = max((i for i, unit in enumerate(self.units, 1) if unit.start_s <= until_s), default=0)
        found, self.units = self.units[:count], self.units[count:]
        return found

    def settled(self, unit: Unit) -> list[float]:
        """Note that the way of a unit is settled, and return the rates of its updates."""
        known = [self._behind.pop(number) for number in unit.members]
        for update, _ in known:
            self._history = self._momentum * self._history + update.norm
        return [rate for _, rate in known]
