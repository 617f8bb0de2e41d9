"""The replica's process: it has a copy of the server's weights, and applies what the server has applied, in its order.

Updates come from daemons, alone or in sums of its own, often before the server has applied them. Then they wait. They
count as replicated all the same, for the replica applies them if the server is lost.

When a worker's daemon is lost, or the scheduler, the server sends its weights, and then all updates itself. Then what
comes from daemons is ignored, and the replica does not serve any more.

It serves once the scheduler says that the server is lost. Daemons still have, or have sent, whatever it lacks of the
updates that the server had applied. It gives no weights before it has applied these, too: then they are of a version
that no worker's weights are ahead of.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from socket import socket
from typing import Any

import numpy as np

from testbed.base.errors import NeighbourError
from testbed.workloads.kinds.fabric.journal import Copy, Step
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.messages import (
    Decided,
    End,
    Give,
    Gone,
    Gradient,
    Held,
    Joined,
    Note,
    Order,
    Serve,
    Snapshot,
)
from testbed.workloads.kinds.fabric.processes.server import Loss, Served, Server, Survival
from testbed.workloads.serving.exchange import Floats
from testbed.workloads.sync.connection import Connection


class Replica(Server):
    """A replica: it applies what the server has applied, and serves once the server is lost."""

    journal: Copy

    def __init__(
        self, plan: Fabric, node: int, sockets: Mapping[int, socket], served: Served, survival: Survival | None = None
    ) -> None:
        super().__init__(plan, node, sockets, served, survival)
        self.journal = Copy()
        self._said_held = 0
        self._begun_again: list[tuple[int, int]] = []
        """Number of steps that had been made here, and at the server, at each of the server's snapshots."""
        self._reported: list[tuple[int, int]] = []
        """Decisions that the server has reported."""
        self._gives: list[Give] = []
        """Orders to give weights that cannot be carried out yet."""
        self._first: dict[int, int] = {}
        """First iteration of each rank that it computed on weights from here."""

    def said(self) -> dict[str, Any]:
        """Report its journal, as ``copied``, and what came, as :meth:`.server.Server.said` does.

        If the server has fed it, ``snapshots``: how many steps had been made here and there when each came; the bytes
        of one; and what came, by its source. Once it has served, ``served``: from which step on, how many entries of
        the journal it had from the server, and by rank the first iteration that was computed on its weights; and
        ``had``, how many updates were here.
        """
        told = self._told_of("copied")
        if self._begun_again:
            size = sum(array.nbytes for array in self._served.arrays)
            told |= {"snapshots": self._begun_again, "snapshot_bytes": size, "came": self.came}
        if self._losses and self._serves:
            served = [self.journal.own_from, self.journal.inherited, sorted(self._first.items())]
            told |= self._told_of_losses() | {"update_bytes": self._weights.nbytes}
            told |= {"served": served, "had": self.journal.had}
        return told

    @property
    def _serves(self) -> bool:
        return self.journal.inherited is not None

    def _decided(self, step: Step) -> None:
        """Report a step to the scheduler, but only once the replica serves: until then the server reports."""
        new = self.journal.new(step)
        if not self._serves or not new:
            return
        for loss in self._losses:
            loss.decided(step)
        self._say(self._plan.scheduler, Decided(tuple(new), self.journal.version))

    def _room(self, connection: Connection, note: Note) -> Floats | None:
        if isinstance(note, Snapshot) and connection.node == self._plan.server and not self._serves:
            return np.empty(sum(map(len, self._served.arrays)), np.float32)
        return super()._room(connection, note)

    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        if isinstance(note, Snapshot) and floats is not None:
            self._begin_again(note, floats)
        else:
            super()._came(connection, note, floats)

    def _begin_again(self, note: Snapshot, floats: Floats) -> None:
        """Begin again with the server's state in place of all that is here."""
        arrays = self._served.arrays
        for array, saved in zip(arrays, np.split(floats, len(arrays)), strict=True):
            np.copyto(array, saved)
        self._begun_again.append((len(self.journal.steps), note.steps))
        self.journal.begin_again(note.at, note.version)
        self._held, self._said_held = {}, -1
        self._say_held()

    def _arrived(self, source: int, note: Gradient, floats: Floats) -> None:
        if source == self._plan.server:
            self._hold(source, note, floats)
        elif self._begun_again:
            self.came.append((source, note.members, floats.nbytes))
        else:
            super()._arrived(source, note, floats)
        self._say_held()

    def _nears(self, source: int, note: Note, left_s: float) -> None:
        if source != self._plan.server and not self._begun_again:
            super()._nears(source, note, left_s)

    def _say_held(self) -> None:
        if not self._serves and self.journal.here > self._said_held:
            self._said_held = self.journal.here
            self._say(self._plan.server, Held(self._said_held, len(self._begun_again)))

    def _has_lost(self, node: int) -> None:
        """Report the server's loss to the scheduler, which decides who serves. If other processes are lost, the server
        goes on, and feeds this one. Raises NeighbourError: two are lost that cannot both be."""
        lost = {*self._former}
        is_server_lost = self._serves or self._plan.server in lost
        if is_server_lost and (self._begun_again or lost - {self._plan.server}):
            raise NeighbourError(
                f"{self._names[node]} was lost, and a server and another process may not both be",
                fix="kill only the server, or only others",
            )
        if is_server_lost:
            self._losses.append(Loss(self._plan.server, time.monotonic(), len(self.journal.entries)))
            self._say(self._plan.scheduler, Gone(node, ()))

    def _told(self, connection: Connection, note: Note) -> None:
        if connection.node == self._plan.scheduler:
            self._told_by_scheduler(connection, note)
        elif connection.node != self._plan.server:
            raise self._misfit(connection, note)
        elif isinstance(note, Order):
            self.journal.expect(note.updates, note.versions)
        elif isinstance(note, Decided):
            self._reported += note.entries
            self.journal.decided(note.entries)
            self._apply_held()
        elif isinstance(note, End):
            self._over = True
            self._say(self._plan.scheduler, End())
        else:
            raise self._misfit(connection, note)
        if not self._over:
            self._say_held()

    def _told_by_scheduler(self, connection: Connection, note: Note) -> None:
        if isinstance(note, Gone):
            self._at(time.monotonic(), self._join)
        elif isinstance(note, Serve):
            self._plan = self._plan.taken_over
            self.journal.take_over(note.updates, note.versions, note.entries, self._plan.options.delay_bound)
            self._apply_held()
        else:
            super()._told(connection, note)

    def _join(self) -> None:
        """Leave the server, which is lost, whether anything was noticed of it here or not; unless it has told that all
        is over."""
        if self._over:
            return
        self._lose(self._plan.server)
        self._say(self._plan.scheduler, Joined(-1, 0, tuple(self._reported)))

    def _apply_held(self) -> None:
        super()._apply_held()
        if self._serves and self.journal.is_level:
            gives, self._gives = self._gives, []
            for give in gives:
                self._give(give)

    def _give(self, give: Give) -> None:
        """Give weights once they are not behind those that workers have."""
        if not self.journal.is_level:
            self._gives.append(give)
            return
        done = Counter(number % len(self._plan.workers) for number, _ in self.journal.entries)
        for node, *_ in give.recipients:
            rank = self._plan.workers.index(node)
            self._first.setdefault(rank, done[rank])
        super()._give(give)

    def _lacks(self) -> str:
        return super()._lacks() if self._serves else self._plan.nodes[self._plan.server]
