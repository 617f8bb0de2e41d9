"""The common part of a server and its replica: both have weights, hold updates until their turn comes, and apply them
in the scheduler's order.

Every update, or sum of several, is applied whole, so that the weights are always one version, and a single process can
repeat a trial from the journal.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from socket import socket
from typing import Any

import numpy as np

from testbed.workloads.kinds.fabric.distance import lines
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.journal import Journal, Rates, Step, Unit
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.exchange import Exchange
from testbed.workloads.kinds.fabric.processes.messages import Gradient, Note
from testbed.workloads.serving import exchange as serving
from testbed.workloads.serving.exchange import Floats
from testbed.workloads.sync.connection import Connection

Apply = Callable[[Floats, bool, int], None]
"""Changes the weights by floats: by one update, or, if they are sums, by the sum of the given number of updates."""


def line(step: Step) -> list[Any]:
    """Return a step as a process reports it: its fate, and the numbers of its updates, their versions, and their
    shares."""
    return [int(step.fate), step.unit.members, step.unit.versions, step.unit.shares]


class Holder(serving.Holder, Exchange):
    """A process that holds weights and applies updates.

    Attributes:
        journal: what became of each.
    """

    def __init__(
        self,
        plan: Fabric,
        node: int,
        sockets: Mapping[int, socket],
        held: tuple[Floats, Apply],
        rates: Rates,
        journal: Journal,
    ) -> None:
        """Set up; ``held`` are the weights, and the function that changes them; ``rates`` is as
        :meth:`.plan.Options.rates`."""
        super().__init__(plan.nodes[node], plan.nodes, sockets)
        self._plan, self._rates, self.journal = plan, rates, journal
        self._parents = (plan.scheduler,)
        self._has_replica = plan.replica is not None
        self._weights, self._apply = held
        self._shard = plan.servers.index(node) if node in plan.servers else 0
        self._held: dict[int, Floats] = {}
        self._received: list[tuple[int, tuple[int, ...], int]] = []
        """All updates and sums that came: the sender, numbers of the updates, and bytes."""

    @abstractmethod
    def _decided(self, step: Step) -> None:
        """React to a step that was decided."""

    @abstractmethod
    def _told(self, connection: Connection, note: Note) -> None:
        """Handle a note that is not an update.

        Raises:
            ValueError: it cannot be.
        """

    @property
    def _is_done(self) -> bool:
        return self._over

    def _steps(self) -> list[list[Any]]:
        """Return the journal, as lines."""
        return [line(step) for step in self.journal.steps]

    def _sizes(self) -> list[tuple[int, int]]:
        """Return the number of the first update, and the bytes, of each message with updates that came."""
        return [(members[0], count) for _, members, count in self._received]

    def _lines(self) -> list[float]:
        """Return numbers that show how far the weights are from the replica's or the server's, where there is a
        replica."""
        return lines(self._weights) if self._has_replica else []

    def _room(self, connection: Connection, note: Note) -> Floats | None:
        if not isinstance(note, Gradient):
            return None
        members = len(note.members)
        is_whole = 0 < members == len(note.versions) == len(note.shares)
        is_weighed = len(note.norms) in (0, members)
        if note.sums not in (1, 2) or note.shard != self._shard or not is_whole or not is_weighed:
            raise self._misfit(connection, note)
        return np.empty(note.sums * len(self._weights), np.float32)

    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        try:
            if isinstance(note, Gradient) and floats is not None:
                self._arrived(connection.node, note, floats)
            else:
                self._told(connection, note)
        except ValueError as error:
            raise self._misfit(connection, f"{note}: {error}") from error

    def _arrived(self, source: int, note: Gradient, floats: Floats) -> None:
        self._say(self._plan.scheduler, self._arrival(note.members, source, self._shard))
        self._hold(source, note, floats)

    def _hold(self, source: int, note: Gradient, floats: Floats) -> None:
        """Hold an update, or a sum, which has come, until its turn."""
        if self.journal.arrive(Unit(note.members, note.versions, note.group >= 0, note.shares), note.norms):
            self._held[note.members[0]] = floats
        else:
            self._repeated(note)
        self._received.append((source, note.members, floats.nbytes))
        self._apply_held()

    def _repeated(self, note: Gradient) -> None:
        """Handle a message of which a part was here before.

        Raises:
            ValueError: nobody sends an update twice.
        """
        raise ValueError(f"some of updates {list(note.members)} were here before")

    def _apply_held(self) -> None:
        while (step := self._next()) is not None:
            floats = self._held.pop(step.unit.members[0])
            if step.fate == Fate.DIRECT and step.unit.shares[0][0] != 1.0:
                floats = floats * np.float32(step.unit.shares[0][0])  # a copy: these may be on their way to a replica
            if step.fate.is_applied:
                self._apply(floats, step.fate == Fate.AGGREGATED, len(step.unit.members))
            self._decided(step)

    def _next(self) -> Step | None:
        return self.journal.next(self._rates)
