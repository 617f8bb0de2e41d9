"""Messages between an asynchronous trial's processes: kinds, layout of notes, and where floats go."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from socket import socket

from testbed.workloads.kinds.asynchronous.plan import servers
from testbed.workloads.serving import exchange
from testbed.workloads.serving.exchange import FLOATS, NOTE, Floats
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.forest import Forest

GOES_ON, ENDS, KEPT = range(FLOATS + 1, FLOATS + 4)
"""Further kinds of messages. ``KEPT``: a replica has an update."""
CALLED = {
    NOTE: "a note",
    FLOATS: "floats",
    GOES_ON: "word of an iteration to follow",
    ENDS: "word of the end",
    KEPT: "word of an update that is kept",
}
NUMBERS = struct.Struct("!II")
"""A worker's note before a gradient: its iteration, the version that it was computed on. A server's note to its replica
before a gradient, and of each update that is new in weights: its rank and iteration."""


class Exchange(exchange.Exchange):
    """Messages with neighbours; ``rooms`` is where each neighbour's floats go.

    Workers begin barriers. After one round, a server knows that all workers are there. With several servers a second
    round tells the workers that all servers are there.
    """

    _last_kind = KEPT
    _fix = "give every node the same forest and model"

    def __init__(self, name: str, forest: Forest, sockets: Mapping[int, socket], rooms: Mapping[int, Floats]) -> None:
        super().__init__(name, forest.nodes, sockets)
        self._rooms = rooms
        self._rounds = 1 if len(servers(forest)) == 1 else 2

    def _floats_of(self, connection: Connection) -> Floats | None:
        return self._rooms.get(connection.node)
