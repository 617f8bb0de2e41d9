"""Messages between operators, in the engine's own loop and over its connections.

A message is a 4-byte header, whose number follows those of the chunks, and floats. It is read straight into the buffer
of its number, whenever it comes: between two messages of one number there is always one from their receiver, which it
sends after it has used the first (a gradient for an output, and the next output for a gradient). So messages need no
rounds and no acknowledgements.

A chunk that cannot be taken yet stops its connection, and the messages behind it. That cannot deadlock where a server
starts its AllReduces when it has sent all messages of the iteration: no message is behind a chunk of its own iteration,
and none of the next iteration is sent before this one's AllReduces of its sender are done. Starting earlier, while
other passes run, would need a second connection to each neighbour.

Over parallel circuits each message is split, for a few large ones would not divide themselves well. So the parts of a
message arrive by several connections, each into its place of the buffer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.kinds.hybrid.program.steps import Phase
from testbed.workloads.sync.bundle import Sockets
from testbed.workloads.sync.chunks import CHUNK_BITS, ChunkTable
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.gate import NOTHING

Floats = NDArray[np.float32]
_NUMBER = (1 << CHUNK_BITS) - 1


@dataclass(frozen=True)
class Buffers:
    """Buffers of one server, by message number: the other server, and the floats that are sent from or received into.
    What is sent has to stay as it is until the answer has come."""

    outgoing: Mapping[int, tuple[int, Floats]]
    incoming: Mapping[int, tuple[int, Floats]]

    def between(self, nodes: Sequence[int]) -> Buffers:
        """Return the same buffers with the node of each server in its place."""
        out, into = (
            {number: (nodes[server], floats) for number, (server, floats) in one.items()}
            for one in (self.outgoing, self.incoming)
        )
        return Buffers(out, into)


class ExchangeEngine(Engine):
    """An engine that sums gradients as :class:`Engine` does, and exchanges messages before."""

    def __init__(
        self,
        node: int,
        forest: Forest,
        chunks: ChunkTable,
        sockets: Sockets,
        gradient: Floats,
        buffers: Buffers,
    ) -> None:
        super().__init__(node, forest, chunks, sockets, gradient)
        self._base = len(self._views)
        self._outgoing = {number: (to, one.data.cast("B")) for number, (to, one) in buffers.outgoing.items()}
        self._incoming = {number: (of, one.data.cast("B")) for number, (of, one) in buffers.incoming.items()}
        self._parts = dict.fromkeys(self._incoming, 0)
        """Number of parts that have come of each message."""
        self._arrived: list[tuple[int, float]] = []
        self._owed = dict.fromkeys(self._incoming, 0)
        """Number of times that each message is to come until the end of this iteration; -1 for one that came early."""
        self._seen: Mapping[str, float] = {}

    def expect(self) -> None:
        """Begin another iteration, in which each message comes once more."""
        for number in self._owed:
            self._owed[number] += 1

    def send(self, number: int) -> None:
        """Queue a message for sending."""
        peer, payload = self._outgoing[number]
        self._by_node[peer].push_split(self._base + number, payload)
        self._move()

    def saw(self, mp_wait_s: Mapping[Phase, float], late_s: float) -> None:
        """Store for this iteration's sample the waits for messages (s) by phase, and how late (s) passes were done."""
        self._seen = {f"mp_wait_{phase}_s": waited_s for phase, waited_s in mp_wait_s.items()} | {"late_s": late_s}

    @property
    def seen(self) -> Mapping[str, Any]:
        return self._seen

    def said(self) -> dict[str, Any]:
        """Report how many bytes of messages and chunks it has sent to each node, headers not included."""
        sent = dict.fromkeys(map(str, self._by_node), 0)
        for connection in self._connections:
            sent[str(connection.node)] += connection.payload_bytes
        return {"payload_bytes": sent}

    def arrived(self) -> list[tuple[int, float]]:
        """List the messages that have come since the last call: number and moment (``time.monotonic``)."""
        found, self._arrived = self._arrived, []
        return found

    def wait_message(self, timeout_s: float) -> None:
        """Move messages until one is there that :meth:`arrived` has not listed.

        Raises:
            TrialTimeoutError: nothing moved for ``timeout_s``; names those waited for.
            WorkerError: a neighbour is gone.
        """
        self._until(lambda: bool(self._arrived), timeout_s)

    def _owes(self, node: int) -> bool:
        return super()._owes(node) or node in self._owing()

    def _owing(self) -> set[int]:
        return {self._incoming[number][0] for number, count in self._owed.items() if count > 0}

    def _awaited(self) -> str:
        owing = self._owing()
        names = [neighbour.name for node, neighbour in self._by_node.items() if node in owing]
        return f"for messages from {', '.join(names)}" if names else super()._awaited()

    def _next_word(self, connection: Connection) -> int | None:
        while (word := super()._next_word(connection)) == NOTHING:
            pass  # which is no progress
        return word

    def _take_more(self, connection: Connection, word: int) -> bool:
        number = (word & _NUMBER) - self._base
        if number < 0:
            return super()._take_more(connection, word)
        sender, payload = self._incoming.get(number, (None, memoryview(b"")))
        if sender != connection.node:
            raise self._misfit(connection, self._base + number)
        part = self._by_node[connection.node].part(connection, payload)
        begins = not connection.admitted
        if begins:
            connection.admitted, connection.left = True, len(part)
        came = begins
        if connection.left:
            came = connection.read_payload(part[-connection.left :]) > 0
        if not connection.left:
            connection.word, connection.admitted = None, False
            self._take_part(number, connection.node)
        elif connection.closed:
            raise self._cut_off(connection)
        return came

    def _take_part(self, number: int, sender: int) -> None:
        """Note that a part of a message is there, and maybe with it the whole message."""
        self._parts[number] = (self._parts[number] + 1) % len(self._by_node[sender].connections)
        if not self._parts[number]:
            self._arrived.append((number, time.monotonic()))
            self._owed[number] -= 1
