"""The replica's process: it has a copy of the server's weights, and applies what the server has applied, in its order.

Updates come from daemons, alone or in sums of its own, often before the server has applied them. Then they wait. They
count as replicated all the same, for the replica applies them if the server is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from socket import socket
from typing import Any

from workloads.kinds.fabric.journal import Copy, Rates, Step
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.fabric.processes.exchange import Floats
from workloads.kinds.fabric.processes.holder import Apply, Holder
from workloads.kinds.fabric.processes.messages import Decided, Dropped, End, Gradient, Held, Note, Order
from workloads.sync.connection import Connection


class Replica(Holder):
    """Applies what the server has applied."""

    journal: Copy

    def __init__(self, plan: Fabric, sockets: Mapping[int, socket], held: tuple[Floats, Apply], rates: Rates) -> None:
        """As :class:`Holder`."""
        assert plan.replica is not None
        super().__init__(plan, plan.replica, sockets, held, rates, Copy())
        self._said_held = 0

    def said(self) -> dict[str, Any]:
        """Its journal; ``received`` as :meth:`.server.Server.said`; and what tells how far its weights are from the
        server's."""
        return {"copied": self._steps(), "received": self._sizes(), "lines": self._lines()}

    def _decided(self, step: Step) -> None:
        """The server knows."""

    def _arrived(self, source: int, note: Gradient, floats: Floats) -> None:
        super()._arrived(source, note, floats)
        self._say_held()

    def _say_held(self) -> None:
        if self.journal.here > self._said_held:
            self._said_held = self.journal.here
            self._say(self._plan.server, Held(self._said_held))

    def _told(self, connection: Connection, note: Note) -> None:
        if connection.node != self._plan.server:
            raise self._misfit(connection, note)
        if isinstance(note, Order):
            self.journal.expect(note.updates, note.versions)
        elif isinstance(note, Dropped):
            self.journal.drop(note.update, note.version)
        elif isinstance(note, Decided):
            self.journal.decided(note.entries)
            self._apply_held()
        elif isinstance(note, End):
            self._over = True
            self._say(self._plan.scheduler, End())
        else:
            raise self._misfit(connection, note)
        if not self._over:
            self._say_held()

    def _awaited(self) -> str:
        return f"for {self._plan.nodes[self._plan.server]}"
