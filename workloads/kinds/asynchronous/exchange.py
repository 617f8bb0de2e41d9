"""Messages between an asynchronous trial's processes: what all of them send and take alike.

A message is a 4-byte header (4 bits kind, 28 bits length of a note) and then nothing, a note, or all floats of a part
of a gradient or of weights, which go straight to where they belong. A process's :mod:`.loop` moves them.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Mapping
from socket import socket

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from workloads.sync.connection import Connection, lost
from workloads.sync.forest import Forest
from workloads.sync.loop import Loop

BARRIER, NOTE, FLOATS, GOES_ON, ENDS, KEPT = range(6)
"""Kinds. ``KEPT``: a replica has an update."""
CALLED = {
    NOTE: "a note",
    FLOATS: "floats",
    GOES_ON: "word of an iteration to follow",
    ENDS: "word of the end",
    KEPT: "word of an update that is kept",
}
UPDATE = struct.Struct("!II")
"""Rank and iteration."""
_KIND_SHIFT = 28
_LENGTH_MASK = (1 << _KIND_SHIFT) - 1
_LONGEST_NOTE_BYTES = 1 << 24
"""That of two million updates; room is made for a note before it is read."""

Floats = NDArray[np.float32]


def rounds(servers: int) -> int:
    """How often workers and servers greet each other in a barrier. After one round, a server knows that all workers are
    there; it takes another one for what workers know by then: that all servers are."""
    return 1 if servers == 1 else 2


class Exchange(Loop):
    """Messages with neighbours, one connection each; ``rooms`` is where each neighbour's floats go."""

    def __init__(self, name: str, forest: Forest, sockets: Mapping[int, socket], rooms: Mapping[int, Floats]) -> None:
        super().__init__(name, [Connection(peer, forest.nodes[peer], sock) for peer, sock in sockets.items()])
        self._rooms = {peer: room.data.cast("B") for peer, room in rooms.items()}
        self._into: dict[int, memoryview] = {}
        self._met = dict.fromkeys(sockets, 0)
        self._barriers = 0

    @abstractmethod
    def _came(self, connection: Connection, kind: int, note: bytes) -> None:
        """A message is complete."""

    @abstractmethod
    def _waits_for(self, connection: Connection) -> bool:
        """Whether something is still to come from this neighbour, so that it may not have ended."""

    def _say(self, connection: Connection, kind: int, payload: memoryview | bytes = b"") -> None:
        length = len(payload) if kind == NOTE else 0
        connection.push(kind << _KIND_SHIFT | length, memoryview(payload))

    def _take(self, connection: Connection) -> bool:
        if connection.word is None:
            connection.word = connection.read_header()
            if connection.word is None:
                self._refuse_end(connection)
                return False
            self._make_room(connection, connection.word)
        count = 0
        if connection.left:
            count = connection.read_payload(self._into[connection.node][-connection.left :])
        if connection.left == 0:
            word, connection.word = connection.word, None
            note = bytes(self._into[connection.node]) if word >> _KIND_SHIFT == NOTE else b""
            self._came(connection, word >> _KIND_SHIFT, note)
            return True
        if connection.closed:
            raise lost(connection, "it was closed within a message")
        return count > 0

    def _refuse_end(self, connection: Connection) -> None:
        """Raise NeighbourError if the neighbour has ended and must not have."""
        if connection.closed and self._waits_for(connection):
            raise lost(connection, "it was closed")

    def _make_room(self, connection: Connection, word: int) -> None:
        kind, length = word >> _KIND_SHIFT, word & _LENGTH_MASK
        if kind not in range(KEPT + 1) or (kind == FLOATS and connection.node not in self._rooms):
            raise self._misfit(connection, f"a message of kind {kind}")
        if length > (_LONGEST_NOTE_BYTES if kind == NOTE else 0):
            raise self._misfit(connection, f"a message of kind {kind} and {length:,} bytes")
        room = self._rooms[connection.node] if kind == FLOATS else memoryview(bytearray(length))
        self._into[connection.node], connection.left = room, len(room)

    def _misfit(self, connection: Connection, what: str) -> WorkerError:
        return WorkerError(
            f"{self._name} got {what} from {connection.name}, and does not expect it",
            fix="give every node the same forest and model",
        )
