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
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from socket import socket
from typing import Any

import numpy as np

from testbed.workloads.kinds.asynchronous.exchange import CALLED, ENDS, GOES_ON, KEPT, UPDATE, Exchange
from testbed.workloads.kinds.asynchronous.ledger import Allotment, Ledger
from testbed.workloads.kinds.asynchronous.plan import replicas, servers, staleness
from testbed.workloads.learning.checkpoint import Keeper
from testbed.workloads.learning.parts import Span, spans
from testbed.workloads.serving.exchange import FLOATS, NOTE, Floats, Holder
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.session import WeightsSession

PUSH = struct.Struct("!II")
"""A worker's note before a gradient: its iteration, the version that it was computed on."""
REPLY = struct.Struct("!IId")
"""The server's note before weights: the number of the worker's update, the version of these weights, and for how long
(s) they were held back. Then comes an :data:`UPDATE` for each update that is new in them."""


class _Part:
    """A worker's dealings with one server.

    Attributes:
        next: what the server is to send next; None where it has sent all.
        is_complete: whether the weights that answer the last gradient are there.
    """

    def __init__(self, connection: Connection, span: Span, gradient: Floats) -> None:
        self.connection, self.span = connection, span
        self.gradient = gradient[slice(*span)].data.cast("B")
        self.next: int | None = None
        self.is_complete = False
        self.version = self.update = self.known = 0
        self.held_s = self.complete_s = 0.0

    def begin(self, first: int) -> None:
        """Note that a gradient is on its way; ``first`` is what the server sends first in answer."""
        self.is_complete, self.next, self.known = False, first, self.version

    def end(self) -> None:
        """Note that the weights that answer the last gradient are there."""
        self.next, self.is_complete, self.complete_s = None, True, time.monotonic()


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
        self._parts = {node: _Part(self._by_node[node], span, gradient) for node, span in cuts.items()}
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
            part.begin(first=GOES_ON if part is self._first else NOTE)
            self._tell(part.connection, NOTE, PUSH.pack(self._iteration, part.version))
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
            part.end()

    def _told(self, part: _Part, note: bytes) -> None:
        """Take what a server says of the weights that come next. Raises WorkerError: it cannot say that."""
        if len(note) < REPLY.size or (len(note) - REPLY.size) % UPDATE.size:
            raise self._misfit(part.connection, f"a note of {len(note)} bytes")
        update, version, held_s = REPLY.unpack_from(note)
        new = list(UPDATE.iter_unpack(note[REPLY.size :]))
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
class _Push:
    """The state of a worker's gradient at the server; ``goes_on`` is None until the worker's next step is known."""

    iteration: int
    version: int
    goes_on: bool | None
    is_there: bool = False


class Server(Holder, Exchange):
    """A server: applies gradients as they come, and gives weights back as its ledger says.

    It has room for a gradient of each worker, and a copy of each version of the weights that is on its way. All sizes
    are those of its part.

    Attributes:
        ledger: the updates, in their order.
    """

    def __init__(
        self,
        name: str,
        forest: Forest,
        sockets: Mapping[int, socket],
        weights: Floats,
        apply: Callable[[Floats], None],
        updates: int,
        keeper: Keeper | None = None,
    ) -> None:
        """Set up; ``apply`` changes ``weights`` by one gradient, and ``updates`` is how many there are in all."""
        self._keeper = keeper or Keeper(None, lambda: weights)
        self._gradients = {worker: np.empty_like(weights) for worker in forest.workers}
        super().__init__(name, forest, sockets, self._gradients)
        self._children = sockets
        node = forest.nodes.index(name)
        number = servers(forest).index(node)
        self._replica = replicas(forest).get(node)
        self._sent_on: deque[tuple[Connection, _Push, bool]] = deque()
        """Updates that the replica does not have yet, in order."""
        self._workers = forest.workers
        self._weights, self._apply = weights, apply
        self._newest, self._copied = memoryview(b""), -1
        self._pushes: dict[int, _Push] = {}
        self._updates_of: dict[int, tuple[int, float]] = {}
        """Number of each rank's last update and when it was applied (s)."""
        self.ledger = Ledger(len(forest.workers), updates, staleness(forest), number)
        self._allotment = None if number else Allotment(len(forest.workers), updates)

    @property
    def _is_done(self) -> bool:
        return self.ledger.is_complete

    def apply_all(self, timeout_s: float) -> None:
        """Return once all updates are applied, and everyone has been sent the last weights; otherwise as
        :meth:`serve`."""
        for _ in self.serve(1, 0, 1, timeout_s):
            pass

    def said(self) -> dict[str, Any]:
        """Return the updates in their order, as the fields of each."""
        updates = [(one.rank, one.iteration, one.version) for one in self.ledger.order]
        kept = {} if self._replica is None else {"part_sha256": hashlib.sha256(self._weights.data).hexdigest()}
        return {"updates": updates, **kept, **self._keeper.said()}

    def _heard(self, connection: Connection, kind: int, note: bytes) -> None:
        push = self._pushes.get(connection.node)
        if connection.node == self._replica:
            self._kept(connection, kind)
            return
        if kind == NOTE and push is None:
            push = self._pushes[connection.node] = self._announced(connection, note)
        elif kind == FLOATS and push and not push.is_there:
            push.is_there = True
        elif kind in (GOES_ON, ENDS) and push and push.is_there and push.goes_on is None:
            push.goes_on = kind == GOES_ON
        else:
            raise self._misfit(connection, f"{CALLED[kind]} out of turn")
        if push.is_there and push.goes_on is not None:
            del self._pushes[connection.node]
            if self._replica is None:
                self._update(connection, push, push.goes_on)
            else:
                self._send_on(connection, push, push.goes_on, self._by_node[self._replica])

    def _announced(self, connection: Connection, note: bytes) -> _Push:
        """Note that a gradient is to come. The first server says now whether its worker does another iteration after
        it."""
        if len(note) != PUSH.size:
            raise self._misfit(connection, f"a note of {len(note)} bytes")
        goes_on = None if self._allotment is None else self._allotment.take()
        if goes_on is not None:
            self._tell(connection, GOES_ON if goes_on else ENDS)
        iteration, version = PUSH.unpack(note)
        return _Push(iteration, version, goes_on)

    def _send_on(self, connection: Connection, push: _Push, goes_on: bool, replica: Connection) -> None:
        """Send the gradient on to the replica before it is applied. Its worker sends no other before it has been
        answered."""
        rank = self._workers.index(connection.node)
        self._sent_on.append((connection, push, goes_on))
        self._tell(replica, NOTE, UPDATE.pack(rank, push.iteration))
        self._tell(replica, FLOATS, self._gradients[connection.node].data.cast("B"))

    def _kept(self, replica: Connection, kind: int) -> None:
        """Apply the next update that was sent to the replica: the replica has it."""
        if kind != KEPT or not self._sent_on:
            raise self._misfit(replica, CALLED[kind])
        self._update(*self._sent_on.popleft())

    def _update(self, connection: Connection, push: _Push, goes_on: bool) -> None:
        """Apply a worker's gradient, and send weights to each worker that may go on now."""
        rank = self._workers.index(connection.node)
        update = self.ledger.apply(rank, push.version, goes_on)
        if update.iteration != push.iteration:
            raise self._misfit(connection, f"iteration {push.iteration} and not {update.iteration}")
        self._apply(self._gradients[connection.node])
        now_s = time.monotonic()
        self._updates_of[rank] = (self.ledger.version - 1, now_s)
        known = list(self.ledger.given)
        for released in self.ledger.release():
            number, applied_s = self._updates_of[released]
            held_s = 0.0 if released == rank else now_s - applied_s
            self._give(released, REPLY.pack(number, self.ledger.version, held_s), known[released])
        self._keeper.after(self.ledger.version)

    def _give(self, rank: int, reply: bytes, known: int) -> None:
        """Send the newest weights to a worker, with the updates in them that are newer than the version that it
        knows."""
        if self._copied != self.ledger.version:
            self._newest, self._copied = self._weights.copy().data.cast("B"), self.ledger.version
        new = self.ledger.order[known:]
        connection = self._by_node[self._workers[rank]]
        self._tell(connection, NOTE, reply + b"".join(UPDATE.pack(update.rank, update.iteration) for update in new))
        self._tell(connection, FLOATS, self._newest)

    def _waits_for(self, connection: Connection) -> bool:
        return not self.ledger.is_complete or self.met[connection.node] < self._barriers

    def _lacks(self) -> str:
        silent = [self._workers[rank] for rank in self.ledger.computing]
        if self._replica is not None and self._sent_on:
            silent = [self._replica]
        silent = self._missing(self.met) or silent
        return ", ".join(self._by_node[node].name for node in sorted(silent))


class Replica(Holder, Exchange):
    """A server's replica: it has each update before the server applies it. It applies the same updates in the same
    order, so it ends with the server's weights. Its whole state is a server's: what momentum keeps is there, too.

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
        """Set up as :class:`Server`."""
        self._gradient = np.empty_like(weights)
        super().__init__(name, forest, sockets, dict.fromkeys(sockets, self._gradient))
        self._parents = sockets
        self._weights, self._apply, self._updates = weights, apply, updates
        self._next: tuple[int, int] | None = None
        self.kept: list[tuple[int, int]] = []

    def said(self) -> dict[str, Any]:
        """Report the updates in their order, and the digest of the weights."""
        return {"replicated": self.kept, "part_sha256": hashlib.sha256(self._weights.data).hexdigest()}

    @property
    def _is_done(self) -> bool:
        return len(self.kept) == self._updates

    def _heard(self, connection: Connection, kind: int, note: bytes) -> None:
        if kind == NOTE and self._next is None and not self._is_done:
            if len(note) != UPDATE.size:
                raise self._misfit(connection, f"a note of {len(note)} bytes")
            rank, iteration = UPDATE.unpack(note)
            self._next = rank, iteration
        elif kind == FLOATS and self._next is not None:
            self._apply(self._gradient)
            self.kept.append(self._next)
            self._next = None
            self._tell(connection, KEPT)
        else:
            raise self._misfit(connection, f"{CALLED[kind]} out of turn")

    def _waits_for(self, connection: Connection) -> bool:
        return not self._is_done or self.met[connection.node] < self._barriers

    def _lacks(self) -> str:
        return self._connections[0].name
