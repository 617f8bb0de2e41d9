"""All connections with one neighbour: one, or one over each of several parallel circuits.

A message leaves over the connection that has been given the fewest bytes so far. So parallel circuits carry the same,
to a message, and bytes by link are known beforehand. Messages over different connections may overtake each other; the
engine allows that (:mod:`.engine`).

Rejected: the connection with the fewest unsent bytes. It would suit circuits of different rates, but bytes by link
would then depend on timing, and no check could tell a wrong route from a slow circuit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from socket import socket

from testbed.workloads.sync.chunks import FLOAT_BYTES
from testbed.workloads.sync.connection import HEADER_BYTES, Act, Connection

Sockets = Mapping[int, socket | Sequence[socket]]
"""Socket of each neighbour; or its sockets, in the same order at both ends, where circuits are parallel."""


class Bundle:
    """The connections with a neighbour, in the same order at both ends.

    Attributes:
        node, name: the neighbour.
        received, expected: messages complete, and messages to come, in this round, over all connections.
    """

    def __init__(self, connections: Sequence[Connection]) -> None:
        self.connections = connections
        self.node, self.name = connections[0].node, connections[0].name
        self.received = self.expected = 0
        self._given_bytes = [0] * len(connections)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can come any more."""
        return all(connection.closed for connection in self.connections)

    def push(self, word: int, payload: memoryview, rank: int = 0, turn: Act | None = None) -> None:
        """Queue one message, as :meth:`Connection.push` does."""
        least = min(range(len(self.connections)), key=self._given_bytes.__getitem__)
        self._given_bytes[least] += HEADER_BYTES + len(payload)
        self.connections[least].push(word, payload, rank, turn)

    def push_split(self, word: int, payload: memoryview) -> None:
        """Queue a part of one large message on each connection, as :meth:`part` says, under the same header."""
        for place, connection in enumerate(self.connections):
            part = self.part(connection, payload)
            self._given_bytes[place] += HEADER_BYTES + len(part)
            connection.push(word, part)

    def part(self, connection: Connection, payload: memoryview) -> memoryview:
        """Return the part of a split message that a connection carries, at either end: an equal part, in whole
        floats."""
        place, count, floats = self.connections.index(connection), len(self.connections), len(payload) // FLOAT_BYTES
        first, last = (FLOAT_BYTES * (one * floats // count) for one in (place, place + 1))
        return payload[first:last]


def bundles(names: Sequence[str], sockets: Sockets, *, ordered: bool) -> dict[int, Bundle]:
    """Make the bundle of each neighbour; ``names`` are those of all nodes, and ``ordered`` is as in
    :class:`Connection`."""
    found = {}
    for peer, given in sockets.items():
        several = [given] if isinstance(given, socket) else given
        found[peer] = Bundle([Connection(peer, names[peer], one, ordered=ordered) for one in several])
    return found
