"""The manager: gives each job its namespace and nonce, and with wide aggregation says when a layer has come to all
cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from testbed.workloads.kinds.phub.exchange import CAME, GO, End, Keyed
from testbed.workloads.kinds.phub.plan import Plan
from testbed.workloads.serving.exchange import Floats, Holder
from testbed.workloads.sync.connection import Connection


class Manager(Holder, Keyed):
    """The manager of one job."""

    def __init__(self, name: str, ends: Sequence[End], plan: Plan, iterations: int) -> None:
        """Set up; ``ends`` are those of connections with all cores."""
        super().__init__(name, ends)
        self._children = range(len(ends))
        at = {place: number for number, place in enumerate(plan.cores_at.values())}
        owners: dict[int, set[int]] = {}
        for key, place in zip(plan.keys, plan.places, strict=True):
            owners.setdefault(key.layer, set()).add(at[place])
        self._owners, self._came_to = owners, Counter[int]()
        times = iterations if plan.aggregation == "wide" else 0
        self._left = times * len(owners)
        self._left_of = [times * sum(at in cores for cores in owners.values()) for at in range(len(ends))]
        """By core, how many layers are still to come to it."""

    @property
    def _is_done(self) -> bool:
        return not self._left

    def _room_of(self, connection: Connection, kind: int, number: int) -> Floats | None:
        if kind != CAME or connection.node not in self._owners.get(number, ()):
            raise self._wrong(connection, kind, number)
        return None

    def _came(self, connection: Connection, kind: int, number: int) -> None:
        self._left_of[connection.node] -= 1
        self._came_to[number] += 1
        if self._came_to[number] < len(self._owners[number]):
            return
        self._came_to[number] = 0
        self._left -= 1
        for at in sorted(self._owners[number]):
            self._say(at, GO, number)

    def _waits_for(self, connection: Connection) -> bool:
        return bool(self._left_of[connection.node]) or self.met[connection.node] < self._barriers

    def _lacks(self) -> str:
        return ", ".join(connection.name for connection in self._connections)
