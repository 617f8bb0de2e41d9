"""Parameter servers that wait for nobody, and their workers: gradients up, the newest weights back.

Each server has a part of the weights (:func:`testbed.workloads.learning.parts.spans`), and applies what it gets of
gradients as it comes. The part of a gradient for a server travels whole, is applied whole, and makes one new version of
that server's weights, so that what a worker computes on is one version of each part, and a single process can repeat a
trial in the orders of its servers (:mod:`.ledger` decides them; :mod:`testbed.workloads.learning.reference` repeats
them). What is sent is a copy of the weights, made once a version that somebody gets: the server's own change while they
are on their way.

A worker sends to all servers at once. The first one says at the beginning whether an iteration is to follow, while the
gradient is still on its way, and the worker tells the others behind their parts of it. So no server waits for another,
and all end with the same updates.

A server with a replica sends it each update when it has all of it, and applies it when the replica has it, too (chain
replication; MLfabric, section 3.3). Updates are applied in the order in which they are sent on.

Rejected: applying each chunk as it comes (a worker would compute on weights of many versions, and neither staleness nor
the result could be told).
"""

from __future__ import annotations

import hashlib
import math
import struct
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from socket import socket
from typing import Any

import numpy as np

from testbed.workloads.kinds.asynchronous.exchange import CALLED, ENDS, GOES_ON, KEPT, NUMBERS, Exchange
from testbed.workloads.kinds.asynchronous.ledger import Ledger
from testbed.workloads.kinds.asynchronous.plan import replicas, servers, staleness
from testbed.workloads.learning.checkpoint import Keeper
from testbed.workloads.learning.parts import Span, spans
from testbed.workloads.serving.exchange import FLOATS, NOTE, Floats, Holder
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.session import WeightsSession

Served = tuple[Floats, Callable[[Floats], None]]
"""Weights, and the function by which a gradient changes them."""
REPLY = struct.Struct("!IId")
"""The server's note before weights: the number of the worker's update, the version of these weights, and for how long
(s) they were held back. Then come the :data:`NUMBERS` of each update that is new in them."""


@dataclass
class _Part:
    """A worker's dealings with one server.

    Attributes:
        next: what the server is to send next; None where it has sent all.
        is_complete: whether the weights that answer the last gradient are there, since ``complete_s``.
        version, update, held_s: what the server has said of them.
        known: the version that the last gradient was computed on.
    """

    connection: Connection
    span: Span
    gradient: memoryview
    next: int | None = None
    is_complete: bool = False
    version: int = 0
    update: int = 0
    known: int = 0
    held_s: float = 0.0
    complete_s: float = 0.0


class Client(WeightsSession, Exchange):
    """A worker's side. An iteration is ``start``, when the gradient is complete, then ``wait``, until newer weights are
    in ``weights``.

    Attributes:
        seen: of the last update: its number ``update`` at the first server, the ``version`` of that server's weights
            that it was computed on, both numbers of each other server (``update_1``, ``version_1``), the largest
            ``staleness`` of its parts, and for how long servers made the worker wait, ``held_s``.
    """

    def __init__(
        self,
        name: str,
        forest: Forest,
        sockets: Mapping[int, socket],
        gradient: Floats,
        weights: Floats,
        learn: Callable[[Sequence[tuple[int, int]], Span], None] = lambda _updates, _span: None,
    ) -> None:
        """Set up; ``learn`` is called with (rank, iteration) of the updates that are new in weights that come, and with
        these weights' place in the whole."""
        served = servers(forest)
        cuts = dict(zip(served, spans(len(weights), len(served)), strict=True))
        super().__init__(name, forest, sockets, {node: weights[slice(*span)] for node, span in cuts.items()})
        self._parents = cuts
        self._parts = {
            node: _Part(self._by_node[node], span, gradient[slice(*span)].data.cast("B")) for node, span in cuts.items()
        }
        self._first, *self._others = self._parts.values()
        self._learn, self._world = learn, len(forest.workers)
        self._iteration = 0

    def start(self, bucket: int) -> None:
        """Let the gradient, which is complete, leave. There is one bucket, 0.

        Raises:
            WorkerError: a server is gone.
        """
        self._check_start(bucket, self._iteration)
        for part in self._parts.values():
            part.is_complete, part.known = False, part.version
            part.next = GOES_ON if part is self._first else NOTE
            self._tell(part.connection, NOTE, NUMBERS.pack(self._iteration, part.version))
            self._tell(part.connection, FLOATS, part.gradient)
        self._move()

    def wait(self, timeout_s: float) -> float:
        """Finish the iteration, and return the time (``time.monotonic``) at which newer weights were complete.

        Raises:
            TrialTimeoutError: nothing moved for ``timeout_s``.
            WorkerError: a server is gone.
        """
        parts = self._parts.values()
        self._until(lambda: all(part.is_complete for part in parts), timeout_s)
        self._iteration += 1
        complete_s = max(part.complete_s for part in parts)
        others = {
            f"{name}_{server}": number
            for server, part in enumerate(self._others, start=1)
            for name, number in (("update", part.update), ("version", part.known))
        }
        self._seen = {
            "update": self._first.update,
            "version": self._first.known,
            **others,
            "staleness": max(part.update - part.known for part in parts),
            "held_s": complete_s - max(part.complete_s - part.held_s for part in parts),
        }
        return complete_s

    def _heard(self, connection: Connection, kind: int, note: bytes) -> None:
        part = self._parts[connection.node]
        if kind in (GOES_ON, ENDS) and part.next == GOES_ON:
            self.goes_on, part.next = kind == GOES_ON, NOTE
            for other in self._others:
                self._tell(other.connection, kind)
        elif kind != part.next or kind == GOES_ON:
            raise self._misfit(connection, CALLED[kind])
        elif kind == NOTE:
            self._told(part, note)
            part.next = FLOATS
        else:
            part.next, part.is_complete, part.complete_s = None, True, time.monotonic()

    def _told(self, part: _Part, note: bytes) -> None:
        """Take what a server says of the weights that come next. Raises WorkerError: it cannot say that."""
        if len(note) < REPLY.size or (len(note) - REPLY.size) % NUMBERS.size:
            raise self._misfit(part.connection, f"a note of {len(note)} bytes")
        update, version, held_s = REPLY.unpack_from(note)
        new = list(NUMBERS.iter_unpack(note[REPLY.size :]))
        if not 0 <= held_s < math.inf or any(rank >= self._world for rank, _ in new):
            raise self._misfit(part.connection, f"weights held for {held_s} s, with updates {new[:3]}")
        part.update, part.version, part.held_s = update, version, held_s
        self._learn(new, part.span)

    def _waits_for(self, connection: Connection) -> bool:
        """Whether this server still has to send something. One that has sent its last weights may end before these are
        read."""
        part = self._parts[connection.node]
        return self.goes_on or not part.is_complete or self.met[connection.node] < self._barriers

    def _awaited(self) -> str:
        silent = self._missing(self._parts) or [node for node, part in self._parts.items() if not part.is_complete]
        return f"for {', '.join(self._by_node[node].name for node in silent)}"


@dataclass
class _Coming:
    """A gradient that is on its way: the numbers of the note before it, and whether its worker does another iteration
    after it, None until that is known."""

    numbers: tuple[int, int]
    goes_on: bool | None
    is_there: bool = False


class _Applying(Holder, Exchange):
    """A process that gets gradients and applies them to its weights. It has room for a gradient of each neighbour that
    sends some; all sizes are those of its part. The subclass decides what follows from a gradient."""

    def __init__(self, name: str, forest: Forest, sockets: Mapping[int, socket], served: Served, updates: int) -> None:
        """Set up; ``updates`` is how many there are in all."""
        (self._weights, self._apply), self._updates = served, updates
        self._node = forest.nodes.index(name)
        self._replica = replicas(forest).get(self._node)
        self._gradients = {node: np.empty_like(self._weights) for node in sockets if node != self._replica}
        super().__init__(name, forest, sockets, self._gradients)
        self._coming: dict[int, _Coming] = {}

    @abstractmethod
    def _goes_on(self, connection: Connection) -> bool | None:
        """Return whether another iteration follows the gradient that a neighbour announces; None if that is told."""

    @abstractmethod
    def _have(self, connection: Connection, gradient: _Coming) -> None:
        """Handle a gradient that is there."""

    @property
    def _digest(self) -> dict[str, Any]:
        return {"part_sha256": hashlib.sha256(self._weights.data).hexdigest()}

    def _heard(self, connection: Connection, kind: int, note: bytes) -> None:
        coming = self._coming.get(connection.node)
        if kind == NOTE and coming is None and not self._is_done:
            if len(note) != NUMBERS.size:
                raise self._misfit(connection, f"a note of {len(note)} bytes")
            first, second = NUMBERS.unpack(note)
            coming = self._coming[connection.node] = _Coming((first, second), self._goes_on(connection))
        elif kind == FLOATS and coming and not coming.is_there:
            coming.is_there = True
        elif kind in (GOES_ON, ENDS) and coming and coming.is_there and coming.goes_on is None:
            coming.goes_on = kind == GOES_ON
        else:
            raise self._misfit(connection, f"{CALLED[kind]} out of turn")
        if coming.is_there and coming.goes_on is not None:
            self._have(connection, self._coming.pop(connection.node))

    def _waits_for(self, connection: Connection) -> bool:
        return not self._is_done or self.met[connection.node] < self._barriers


class Server(_Applying):
    """A server: applies gradients as they come, and gives weights back as its ledger says. It has a copy of each
    version of the weights that is on its way.

    Attributes:
        ledger: the updates, in their order.
        keeper: writes checkpoints.
    """

    def __init__(self, name: str, forest: Forest, sockets: Mapping[int, socket], served: Served, updates: int) -> None:
        super().__init__(name, forest, sockets, served, updates)
        self._children, self._workers = sockets, forest.workers
        self._number = servers(forest).index(self._node)
        self._sent_on: deque[tuple[Connection, _Coming]] = deque()
        """Updates that the replica does not have yet, in order."""
        self._updates_of: dict[int, tuple[int, float]] = {}
        """Number of each rank's last update and when it was applied (s)."""
        self.ledger = Ledger(len(forest.workers), updates, staleness(forest), self._number)
        self.keeper = Keeper(None, lambda: self._weights)

    @property
    def _is_done(self) -> bool:
        return self.ledger.is_complete

    def said(self) -> dict[str, Any]:
        """Return the updates in their order, as the fields of each."""
        updates = [(update.rank, update.iteration, update.version) for update in self.ledger.order]
        return {"updates": updates, **({} if self._replica is None else self._digest), **self.keeper.said()}

    def _heard(self, connection: Connection, kind: int, note: bytes) -> None:
        if connection.node != self._replica:
            super()._heard(connection, kind, note)
        elif kind == KEPT and self._sent_on:
            self._update(*self._sent_on.popleft())
        else:
            raise self._misfit(connection, CALLED[kind])

    def _goes_on(self, connection: Connection) -> bool | None:
        """Give the worker another iteration or none, if this is the first server. The others hear it from the
        worker."""
        if self._number:
            return None
        goes_on = self.ledger.take()
        self._tell(connection, GOES_ON if goes_on else ENDS)
        return goes_on

    def _have(self, connection: Connection, gradient: _Coming) -> None:
        """Apply a gradient, after the replica has it. Its worker sends no other before it has been answered."""
        if self._replica is None:
            self._update(connection, gradient)
            return
        replica, (iteration, _) = self._by_node[self._replica], gradient.numbers
        self._sent_on.append((connection, gradient))
        self._tell(replica, NOTE, NUMBERS.pack(self._workers.index(connection.node), iteration))
        self._tell(replica, FLOATS, self._gradients[connection.node].data.cast("B"))

    def _update(self, connection: Connection, gradient: _Coming) -> None:
        """Apply a worker's gradient, and send weights to each worker that may go on now, with the updates in them that
        are newer than the version that it knows."""
        rank, (iteration, version) = self._workers.index(connection.node), gradient.numbers
        update = self.ledger.apply(rank, version, bool(gradient.goes_on))
        if update.iteration != iteration:
            raise self._misfit(connection, f"iteration {iteration} and not {update.iteration}")
        self._apply(self._gradients[connection.node])
        now_s, known = time.monotonic(), list(self.ledger.given)
        self._updates_of[rank] = self.ledger.version - 1, now_s
        released = self.ledger.release()
        newest = self._weights.copy().data.cast("B") if released else memoryview(b"")
        for rank in released:
            number, applied_s = self._updates_of[rank]
            reply = REPLY.pack(number, self.ledger.version, now_s - applied_s)
            new = [NUMBERS.pack(update.rank, update.iteration) for update in self.ledger.order[known[rank] :]]
            worker = self._by_node[self._workers[rank]]
            self._tell(worker, NOTE, reply + b"".join(new))
            self._tell(worker, FLOATS, newest)
        self.keeper.after(self.ledger.version)

    def _lacks(self) -> str:
        silent = [self._workers[rank] for rank in self.ledger.computing]
        if self._replica is not None and self._sent_on:
            silent = [self._replica]
        silent = self._missing(self.met) or silent
        return ", ".join(self._by_node[node].name for node in sorted(silent))


class Replica(_Applying):
    """A server's replica: it has each update before the server applies it. It applies the same updates in the same
    order, so it ends with the server's weights. Its whole state is a server's: what momentum keeps is there, too.

    Attributes:
        kept: (rank, iteration) of the updates that it has, in their order.
    """

    def __init__(self, name: str, forest: Forest, sockets: Mapping[int, socket], served: Served, updates: int) -> None:
        super().__init__(name, forest, sockets, served, updates)
        self._parents = sockets
        self.kept: list[tuple[int, int]] = []

    @property
    def _is_done(self) -> bool:
        return len(self.kept) == self._updates

    def said(self) -> dict[str, Any]:
        """Report the updates in their order, and the digest of the weights."""
        return {"replicated": self.kept, **self._digest}

    def _goes_on(self, connection: Connection) -> bool | None:
        return False  # the server knows

    def _have(self, connection: Connection, gradient: _Coming) -> None:
        self._apply(self._gradients[connection.node])
        self.kept.append(gradient.numbers)
        self._tell(connection, KEPT)

    def _lacks(self) -> str:
        return self._connections[0].name
