"""A server's replica in chain replication: it has each update before the server applies it (MLfabric, section 3.3).

It applies the same updates in the same order, so it ends with the server's weights. Its whole state is a server's: what
momentum keeps is there, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from socket import socket
from typing import Any

import numpy as np

from testbed.workloads.kinds.asynchronous.exchange import (
    BARRIER,
    CALLED,
    FLOATS,
    KEPT,
    NOTE,
    UPDATE,
    Exchange,
    Floats,
    rounds,
)
from testbed.workloads.kinds.asynchronous.plan import servers
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.framed import NoBuckets


class Replica(NoBuckets, Exchange):
    """A replica; a :class:`testbed.workloads.sync.session.Session`.

    Attributes:
        kept: (rank, iteration) of the updates that it has, in their order.
    """

    def __init__(
        self,
        name: str,
        forest: Forest,
        sockets: Mapping[int, socket],
        weights: Floats,
        apply: Callable[[Floats], None],
        updates: int,
    ) -> None:
        """Set up; ``apply`` changes ``weights`` by one gradient; ``updates`` is how many there are in all."""
        (server,) = sockets
        self._gradient = np.empty_like(weights)
        super().__init__(name, forest, sockets, {server: self._gradient})
        (self._server,) = self._connections
        self._weights, self._apply, self._updates = weights, apply, updates
        self._rounds = rounds(len(servers(forest)))
        self._next: tuple[int, int] | None = None
        self.kept: list[tuple[int, int]] = []

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:
        """Apply all updates of the trial, as one step.

        Raises:
            TrialTimeoutError: nothing moved for ``silence_s``.
            WorkerError: the server is gone.
        """
        self._until(lambda: self._has_all and not self._sending(), silence_s)
        yield total

    def said(self) -> dict[str, Any]:
        """Report the updates in their order, and the digest of the weights."""
        return {"replicated": self.kept, "part_sha256": hashlib.sha256(self._weights.data).hexdigest()}

    def barrier(self, timeout_s: float) -> None:
        """Return once every worker and all servers have called this.

        Raises:
            TrialTimeoutError, WorkerError: as :meth:`serve`.
        """
        for _ in range(self._rounds):
            self._barriers += 1
            self._say(self._server, BARRIER)
            self._until(lambda: self._met[self._server.node] >= self._barriers, timeout_s)

    @property
    def _has_all(self) -> bool:
        return len(self.kept) == self._updates

    def _came(self, connection: Connection, kind: int, note: bytes) -> None:
        if kind == BARRIER:
            self._met[connection.node] += 1
        elif kind == NOTE and self._next is None and not self._has_all:
            if len(note) != UPDATE.size:
                raise self._misfit(connection, f"a note of {len(note)} bytes")
            rank, iteration = UPDATE.unpack(note)
            self._next = rank, iteration
        elif kind == FLOATS and self._next is not None:
            self._apply(self._gradient)
            self.kept.append(self._next)
            self._next = None
            self._say(connection, KEPT)
        else:
            raise self._misfit(connection, f"{CALLED[kind]} out of turn")

    def _waits_for(self, connection: Connection) -> bool:
        return not self._has_all or self._met[connection.node] < self._barriers

    def _awaited(self) -> str:
        return f"for {self._server.name}"
