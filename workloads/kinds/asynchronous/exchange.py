"""Messages between an asynchronous trial's processes: the part of sending and receiving that servers, replicas and
workers share.

A message (:mod:`testbed.workloads.sync.framed`) has nothing besides its kind, a note, or all floats of a part of a
gradient or of weights.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Mapping
from socket import socket

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.framed import Framed

BARRIER, NOTE, FLOATS, GOES_ON, ENDS, KEPT = range(6)
"""Kinds of messages. ``KEPT``: a replica has an update."""
CALLED = {
    NOTE: "a note",
    FLOATS: "floats",
    GOES_ON: "word of an iteration to follow",
    ENDS: "word of the end",
    KEPT: "word of an update that is kept",
}
UPDATE = struct.Struct("!II")
"""Rank and iteration."""
_LONGEST_NOTE_BYTES = 1 << 24
"""Limit of a note's length, as long as one about two million updates; room is made for a note before it is read."""

Floats = NDArray[np.float32]


def rounds(servers: int) -> int:
    """Return how often workers and servers greet each other in a barrier. After one round, a server knows that all
    workers are there. With several servers a second round tells the workers that all servers are there."""
    return 1 if servers == 1 else 2


class Exchange(Framed):
    """Messages with neighbours, one connection each; ``rooms`` is where each neighbour's floats go."""

    def __init__(self, name: str, forest: Forest, sockets: Mapping[int, socket], rooms: Mapping[int, Floats]) -> None:
        super().__init__(name, [Connection(peer, forest.nodes[peer], sock) for peer, sock in sockets.items()])
        self._rooms = {peer: room.data.cast("B") for peer, room in rooms.items()}
        self._met = dict.fromkeys(sockets, 0)
        self._barriers = 0

    @abstractmethod
    def _came(self, connection: Connection, kind: int, note: bytes) -> None:
        """Handle a message that has arrived whole."""

    def _say(self, connection: Connection, kind: int, payload: memoryview | bytes = b"") -> None:
        self._push(connection, kind, memoryview(payload), len(payload) if kind == NOTE else 0)

    def _room_for(self, connection: Connection, kind: int, length: int) -> memoryview:
        if kind not in range(KEPT + 1) or (kind == FLOATS and connection.node not in self._rooms):
            raise self._misfit(connection, f"a message of kind {kind}")
        if length > (_LONGEST_NOTE_BYTES if kind == NOTE else 0):
            raise self._misfit(connection, f"a message of kind {kind} and {length:,} bytes")
        return self._rooms[connection.node] if kind == FLOATS else memoryview(bytearray(length))

    def _message(self, connection: Connection, kind: int, room: memoryview) -> None:
        self._came(connection, kind, bytes(room) if kind == NOTE else b"")

    def _misfit(self, connection: Connection, what: str) -> WorkerError:
        return WorkerError(
            f"{self._name} got {what} from {connection.name}, and does not expect it",
            fix="give every node the same forest and model",
        )
