"""Notes and floats over connections, and barriers: the common part of servers, their replicas and workers.

A message is a 4-byte header (4 bits kind, 28 bits length of a note) and then nothing, a note, or all floats of an
array, which go straight to where they belong: both sides know how many they are. The subclass says what notes mean,
where floats go, and what follows from a message.

A process may end while its neighbours still send. If it closes a connection with bytes unread, the kernel resets the
connection: what has not arrived is thrown away, and the neighbour can send nothing more. So before it closes, a process
waits until what it has sent has arrived. And a process that can send nothing more to a neighbour first reads what has
come from it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from socket import socket

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from testbed.workloads.sync.connection import HEADER_BYTES, Act, Connection, LostError, linger, lost
from testbed.workloads.sync.loop import Loop

BARRIER, NOTE, FLOATS = range(3)
"""Kinds of messages; subclasses have further ones, which are headers alone."""
LONGEST_BYTES = 1 << 24
"""Limit on the bytes of a note: memory for it is taken before it is read."""

_KIND_SHIFT = 28
_LENGTH_MASK = (1 << _KIND_SHIFT) - 1

Floats = NDArray[np.float32]


class Exchange(Loop):
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
        self._into: dict[int, memoryview] = {}
        """By neighbour, the room for the rest of its message."""

    @abstractmethod
    def _floats_of(self, connection: Connection) -> Floats | None:
        """Return the array for the floats that this neighbour may send now; None if it may send none."""

    @abstractmethod
    def _waits_for(self, connection: Connection) -> bool:
        """Whether something is still to come from this neighbour, so that it may not have ended."""

    @abstractmethod
    def _heard(self, connection: Connection, kind: int, note: bytes) -> None:
        """Handle a message that has arrived whole, and does not belong to a barrier."""

    def _tell(self, connection: Connection, kind: int, payload: memoryview | bytes = b"") -> None:
        """Queue a message. The payload must stay as it is until it is sent."""
        self._push(connection, kind, memoryview(payload), len(payload) if kind == NOTE else 0)

    def _push(
        self, connection: Connection, kind: int, payload: memoryview, length: int = 0, left: Act | None = None
    ) -> None:
        """Queue a message; ``length`` is a note's. The payload must stay as it is until it is sent; then ``left`` is
        called."""
        word = kind << _KIND_SHIFT | length
        connection.push_raw(word.to_bytes(HEADER_BYTES, "big"), payload, left=left)

    def close(self) -> None:
        """Close every connection once what was sent has arrived, or after :data:`.connection.LINGER_S`."""
        linger(self._connections)
        super().close()

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

    def _flush(self, connection: Connection) -> int:
        """Hand queued bytes to the kernel. If the neighbour has ended, and messages of it are unread, drop what waits
        for it: these messages tell whether it was to end."""
        try:
            return super()._flush(connection)
        except LostError as error:
            has_ended = isinstance(error.__cause__, ConnectionError)
            if connection.closed or not has_ended or not connection.has_unread:
                raise
            connection.drop()
            connection.readable = True
            return 0

    def _take(self, connection: Connection) -> bool:
        if connection.word is None:
            connection.word = connection.read_header()
            if connection.word is None:
                self._refuse_end(connection)
                return False
            room = self._room_for(connection, connection.word >> _KIND_SHIFT, connection.word & _LENGTH_MASK)
            self._into[connection.node], connection.left = room, len(room)
        count = 0
        if connection.left:
            count = connection.read_payload(self._into[connection.node][-connection.left :])
        if connection.left == 0:
            word, connection.word = connection.word, None
            self._message(connection, word >> _KIND_SHIFT, self._into[connection.node])
            return True
        if connection.closed:
            raise lost(connection, "it was closed within a message")
        return count > 0

    def _refuse_end(self, connection: Connection) -> None:
        """
        Raises:
            NeighbourError: the neighbour has ended, and must not have.
        """
        if connection.closed and self._waits_for(connection):
            raise lost(connection, "it was closed")

    def _room_for(self, connection: Connection, kind: int, length: int) -> memoryview:
        """Return the room for the rest of a message whose header has come; ``length`` is a note's.

        Raises:
            WorkerError: there is no such message.
        """
        floats = self._floats_of(connection)
        if kind > self._last_kind or (kind == FLOATS and floats is None):
            raise self._misfit(connection, f"a message of kind {kind}")
        if length > (LONGEST_BYTES if kind == NOTE else 0):
            raise self._misfit(connection, f"a message of kind {kind} and {length:,} bytes")
        return floats.data.cast("B") if kind == FLOATS and floats is not None else memoryview(bytearray(length))

    def _message(self, connection: Connection, kind: int, room: memoryview) -> None:
        """Handle a message that is there, with the rest of it in ``room``."""
        if kind == BARRIER:
            self.met[connection.node] += 1
        else:
            self._heard(connection, kind, bytes(room) if kind == NOTE else b"")

    def _misfit(self, connection: Connection, what: object) -> WorkerError:
        return WorkerError(f"{self._name} got {what} from {connection.name}, and does not expect it", fix=self._fix)


class Holder(Exchange):
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
