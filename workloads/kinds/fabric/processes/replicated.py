"""A server that goes on when its replica is lost, and reports its decisions as it makes them, so that one process can
repeat its work when it is lost itself.

When a worker's daemon is lost, or the scheduler, nobody else can send the replica all that it lacks: a lost daemon had
updates still to send, and sums for the replica were of other updates than those for the server. So the server feeds it.
It sends its weights as they are, and then each update, or sum, when its turn comes. It goes no further ahead than
before. From then on it may not be lost any more: daemons keep no copies.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from testbed.workloads.kinds.fabric.journal import Step
from testbed.workloads.kinds.fabric.processes.messages import Gone, Gradient, Held, Note, Order, Snapshot
from testbed.workloads.kinds.fabric.processes.server import Loss, Server, line
from testbed.workloads.sync.connection import Connection


class Replicated(Server):
    """A server that applies updates, and gives weights, with a replica or without."""

    _alone_from: int | None = None
    """Number of steps that had been made when the replica was lost."""
    _snapshots = _fed = 0
    """Number of snapshots that were sent, and of updates of the order that the replica has in these, or was sent
    since."""

    def tells(self, write: Callable[..., None]) -> None:
        """Store ``write``, by which each step is written before anybody hears of it."""
        self._tells = write

    def said(self) -> dict[str, Any]:
        """Report as :meth:`.server.Server.said`; and how many steps had been made when the replica was lost."""
        told = super().said()
        return told if self._alone_from is None else {**told, "alone_from": self._alone_from}

    def _report(self, step: Step) -> None:
        lead = self.journal.leads[-1]
        norms = [self.journal.norms.get(number, 0.0) for number in step.unit.members]
        self._tells(step=line(step), lead=lead, norms=norms, momentum=self._served.momentum)
        super()._report(step)

    def _told(self, connection: Connection, note: Note) -> None:
        from_scheduler = connection.node == self._plan.scheduler
        if isinstance(note, Gone) and from_scheduler and note.node == self._plan.replica:
            self._at(time.monotonic(), self._go_on_alone)
        elif isinstance(note, Held) and note.snapshots != self._snapshots:
            return  # it did not have the last one yet
        else:
            super()._told(connection, note)

    def _tell_replica(self, note: Note) -> None:
        """Send the replica a note, but no order if it is fed: it learns the order from the updates that it gets."""
        if not (self._snapshots and isinstance(note, Order)):
            super()._tell_replica(note)

    # Losses.

    def _has_lost(self, node: int) -> None:
        """
        Raises:
            NeighbourError: no worker is left.
        """
        if node != self._plan.replica:
            self._send_snapshot()
            super()._has_lost(node)
            return
        self._losses.append(Loss(node, time.monotonic(), len(self.journal.entries)))
        self._alone_from = len(self.journal.steps)
        if self._is_alone:
            self._at(time.monotonic(), self._go_on_alone)
        else:  # that decides who goes on; until then the bound holds
            self._say(self._plan.scheduler, Gone(node, ()))

    def _go_on_alone(self) -> None:
        """Go on without the replica, which is lost, whether anything was noticed of it here or not."""
        assert self._plan.replica is not None
        self._lose(self._plan.replica)
        self._plan = self._plan.unreplicated
        self.journal.let_go()
        self._apply_held()

    # What the replica is fed.

    def _send_snapshot(self) -> None:
        """Send the replica a snapshot, with which it has the server's state."""
        if self._plan.replica is None or self._plan.replica in self._former:
            return
        self._snapshots, self._fed = self._snapshots + 1, self.journal.at
        self.journal.replicated = min(self.journal.replicated, self._fed)
        note = Snapshot(self._snapshots, self._fed, self.journal.version, len(self.journal.steps))
        self._say(self._plan.replica, note, np.concatenate(self._served.arrays))

    def _next(self) -> Step | None:
        if self._snapshots:
            self._feed()
        return super()._next()

    def _feed(self) -> None:
        """Send the replica the unit whose turn it is, with the shares of its updates."""
        unit = self.journal.turn
        if unit is None or self._plan.replica is None or self.journal.at < self._fed:
            return
        floats = self._held[unit.members[0]]
        self._fed += len(unit.members)
        self._say(self._plan.replica, Order(unit.members, unit.versions, ()))
        group, sums = 0 if unit.is_sum else -1, len(floats) // len(self._weights)
        self._say(self._plan.replica, Gradient(unit.members, unit.versions, unit.shares, group, sums), floats)
