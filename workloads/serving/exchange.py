"""Notes and floats over connections, and barriers: the common part of servers, their replicas and workers.

A message (:mod:`testbed.workloads.sync.framed`) has a kind, and a note, all floats of an array, or nothing more. The
subclass says what notes mean, where floats go, and what follows from a message.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from socket import socket

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.framed import Framed
from testbed.workloads.sync.loop import NoBuckets

BARRIER, NOTE, FLOATS = range(3)
"""Kinds of messages; subclasses have further ones, which are headers alone."""
LONGEST_BYTES = 1 << 24
"""Limit on the bytes of a note: memory for it is taken before it is read."""

Floats = NDArray[np.float32]


class Exchange(Framed):
    """Messages with neighbours, one connection each.

    A barrier goes up and down a tree: a process waits for its children, tells its parents, waits for their answer, and
    answers its children.

    Attributes:
        met: by neighbour, how many times it has told this process of a barrier.
    """

    _last_kind = FLOATS
    _fix = "report it: the protocol is broken"
    _parents: Collection[int] = ()
    _children: Collection[int] = ()
    _rounds = 1
    """Number of times that a barrier goes up and down the tree."""

    def __init__(self, name: str, names: Mapping[int, str] | Sequence[str], sockets: Mapping[int, socket]) -> None:
        """Set up; ``names`` are the names of the processes at the other ends, by node."""
        super().__init__(name, [Connection(peer, names[peer], sock) for peer, sock in sockets.items()])
        self._by_node = {connection.node: connection for connection in self._connections}
        self.met = dict.fromkeys(sockets, 0)
        self._barriers = 0

    @abstractmethod
    def _floats_of(self, connection: Connection) -> Floats | None:
        """Return the array for the floats that this neighbour may send now; None if it may send none."""

    @abstractmethod
    def _heard(self, connection: Connection, kind: int, note: bytes) -> None:
        """Handle a message that has arrived whole, and does not belong to a barrier."""

    def _tell(self, connection: Connection, kind: int, payload: memoryview | bytes = b"") -> None:
        """Queue a message. The payload must stay as it is until it is sent."""
        self._push(connection, kind, memoryview(payload), len(payload) if kind == NOTE else 0)

    def barrier(self, timeout_s: float) -> None:
        """Return once every process of the trial has called this.

        Raises:
            TrialTimeoutError: nothing moved for ``timeout_s``; names what is waited for.
            WorkerError: a process is gone, or sent what it cannot have.
        """
        for _ in range(self._rounds):
            self._barriers += 1
            for node in self._children:
                self._refuse_end(self._by_node[node])
            self._until(lambda: not self._missing(self._children), timeout_s)
            for node in self._parents:
                self._say_barrier(node)
            self._until(lambda: not self._missing(self._parents), timeout_s)
            for node in self._children:
                self._say_barrier(node)
        if self._children:
            self._until(lambda: not self._sending(), timeout_s)

    def _say_barrier(self, node: int) -> None:
        self._tell(self._by_node[node], BARRIER)

    def _missing(self, nodes: Iterable[int]) -> list[int]:
        """List the nodes that have not told this process of the last barrier yet."""
        return [node for node in nodes if self.met[node] < self._barriers]

    def _room_for(self, connection: Connection, kind: int, length: int) -> memoryview:
        floats = self._floats_of(connection)
        if kind > self._last_kind or (kind == FLOATS and floats is None):
            raise self._misfit(connection, f"a message of kind {kind}")
        if length > (LONGEST_BYTES if kind == NOTE else 0):
            raise self._misfit(connection, f"a message of kind {kind} and {length:,} bytes")
        return floats.data.cast("B") if kind == FLOATS and floats is not None else memoryview(bytearray(length))

    def _message(self, connection: Connection, kind: int, room: memoryview) -> None:
        if kind == BARRIER:
            self.met[connection.node] += 1
        else:
            self._heard(connection, kind, bytes(room) if kind == NOTE else b"")

    def _misfit(self, connection: Connection, what: object) -> WorkerError:
        return WorkerError(f"{self._name} got {what} from {connection.name}, and does not expect it", fix=self._fix)


class Holder(NoBuckets, Exchange):
    """A process that holds weights and applies updates to them: a server, or its replica."""

    @property
    @abstractmethod
    def _is_done(self) -> bool:
        """Whether all updates are applied, and nothing more will come."""

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:  # noqa: ARG002
        """Apply all updates of the trial, as one step.

        Raises:
            TrialTimeoutError: nothing moved for ``silence_s``; names what is waited for.
            WorkerError: a process is gone, or sent what it cannot have.
        """
        self._until(lambda: self._is_done and not self._sending(), silence_s)
        yield total

    def _awaited(self) -> str:
        stuck = [connection.name for connection in self._stuck()]
        return f"for {', '.join(stuck)} to take what is theirs" if stuck else f"for {self._lacks()}"

    @abstractmethod
    def _lacks(self) -> str:
        """Say what this waits for, if others have taken all that is theirs: "key 3 from h1"."""
