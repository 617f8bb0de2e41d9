"""A parameter server that waits for nobody, and its workers: gradients up, the newest weights back.

Each gradient travels whole, is applied whole, and makes one new version of the weights, so that what a worker computes
on is always one version, and a single process can repeat a trial in the order of its updates (:mod:`.ledger` decides
that order; :mod:`workloads.reference` repeats it). What is sent is a copy of the weights, made once a version that
somebody gets: the server's own change while they are on their way.

A message is a 4-byte header (4 bits kind, 28 bits length of a note) and then a note, or all floats of a gradient or of
weights, which go straight to where they belong. A process's :mod:`.loop` moves them.

Rejected: applying each chunk as it comes (a worker would compute on weights of many versions, and neither staleness nor
the result could be told); several servers (versions would differ from server to server, for the same reason).
"""

from __future__ import annotations

import math
import struct
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from itertools import count, takewhile
from socket import socket
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from workloads.kinds.asynchronous.ledger import Ledger, Release
from workloads.kinds.asynchronous.plan import staleness
from workloads.sync.connection import Connection, lost
from workloads.sync.forest import Forest
from workloads.sync.loop import Loop
from workloads.sync.session import Model

_BARRIER, _NOTE, _FLOATS = range(3)
_KIND_SHIFT = 28
_LENGTH_MASK = (1 << _KIND_SHIFT) - 1
_LONGEST_NOTE_BYTES = 1 << 24
"""That of two million updates; room is made for a note before it is read."""
_PUSH = struct.Struct("!II")
"""A worker's note before a gradient: its iteration, the version that it was computed on."""
_REPLY = struct.Struct("!IIdB")
"""The server's before weights: which update the gradient was, the version of these weights, for how long (s) they were
held back, whether another iteration is to follow. Then comes an :data:`_UPDATE` for each update that is new in them."""
_UPDATE = struct.Struct("!II")
"""Rank and iteration."""

Floats = NDArray[np.float32]


class _Exchange(Loop):
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
        length = len(payload) if kind == _NOTE else 0
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
            note = bytes(self._into[connection.node]) if word >> _KIND_SHIFT == _NOTE else b""
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
        if kind not in (_BARRIER, _NOTE, _FLOATS):
            raise self._misfit(connection, f"a message of kind {kind}")
        if length > (_LONGEST_NOTE_BYTES if kind == _NOTE else 0):
            raise self._misfit(connection, f"a message of kind {kind} and {length:,} bytes")
        room = self._rooms[connection.node] if kind == _FLOATS else memoryview(bytearray(length))
        self._into[connection.node], connection.left = room, len(room)

    def _misfit(self, connection: Connection, what: str) -> WorkerError:
        return WorkerError(
            f"{self._name} got {what} from {connection.name}, and does not expect it",
            fix="give every node the same forest and model",
        )


class Client(_Exchange):
    """A worker's side; a :class:`workloads.sync.session.Session`.

    An iteration is ``start``, when the gradient is complete, then ``wait``, until newer weights are in ``weights``.

    Attributes:
        goes_on: whether there is an iteration to do.
        seen: of the last update: its number ``update``, the ``version`` it was computed on, its ``staleness``, and how
            long its weights were held back, ``held_s``.
    """

    leaves_sums = False

    def __init__(
        self,
        name: str,
        forest: Forest,
        sockets: Mapping[int, socket],
        gradient: Floats,
        weights: Floats,
        learn: Callable[[Sequence[tuple[int, int]]], None] = lambda _updates: None,
    ) -> None:
        """``learn`` is told (rank, iteration) of the updates that are new in weights that come."""
        (server,) = sockets
        super().__init__(name, forest, sockets, {server: weights})
        self._server, self._gradient, self._learn = self._connections[0], gradient.data.cast("B"), learn
        self._iteration = self._version = 0
        self.goes_on = True
        self._seen: dict[str, float] = {}
        self._world = len(forest.workers)
        self._next: int | None = None
        """What the server is to send next: a note, floats, or, where it has sent all, nothing."""
        self._complete = False

    def start(self, bucket: int) -> None:
        """The gradient is complete: let it leave. There is one bucket, 0.

        Raises:
            WorkerError: the server is gone.
        """
        if bucket or not self.goes_on:
            raise ValueError(f"bucket {bucket} of iteration {self._iteration}, and goes_on is {self.goes_on}")
        self._complete, self._next = False, _NOTE
        self._say(self._server, _NOTE, _PUSH.pack(self._iteration, self._version))
        self._say(self._server, _FLOATS, self._gradient)
        self._move()

    def wait(self, timeout_s: float) -> float:
        """Finish the iteration; returns the time (``time.monotonic``) at which newer weights were complete.

        Raises:
            TrialTimeoutError: nothing moved for ``timeout_s``.
            WorkerError: the server is gone.
        """
        self._until(lambda: self._complete, timeout_s)
        self._iteration += 1
        return self._complete_s

    def barrier(self, timeout_s: float) -> None:
        """Return once every worker and the server have called this.

        Raises:
            TrialTimeoutError, WorkerError: as :meth:`wait`.
        """
        self._barriers += 1
        self._say(self._server, _BARRIER)
        self._until(lambda: self._met[self._server.node] == self._barriers, timeout_s)

    @property
    def seen(self) -> Mapping[str, float]:
        return self._seen

    def iterations(self, done: int, total: int) -> Iterator[int]:
        """Those that the server gives out."""
        return takewhile(lambda _: self.goes_on, count(done))

    def step(self, model: Model, world: int) -> None:
        """Compute on the weights that came."""
        model.put()

    def _came(self, connection: Connection, kind: int, note: bytes) -> None:
        if kind == _BARRIER:
            self._met[connection.node] += 1
        elif kind != self._next:
            raise self._misfit(connection, "a note" if kind == _NOTE else "weights")
        elif kind == _NOTE:
            self._told(connection, note)
            self._next = _FLOATS
        else:
            self._next, self._complete, self._complete_s = None, True, time.monotonic()

    def _told(self, connection: Connection, note: bytes) -> None:
        """Take what the server says of the weights that come next. Raises WorkerError: it cannot say that."""
        if len(note) < _REPLY.size or (len(note) - _REPLY.size) % _UPDATE.size:
            raise self._misfit(connection, f"a note of {len(note)} bytes")
        update, version, held_s, goes_on = _REPLY.unpack_from(note)
        new = list(_UPDATE.iter_unpack(note[_REPLY.size :]))
        if not 0 <= held_s < math.inf or any(rank >= self._world for rank, _ in new):
            raise self._misfit(connection, f"weights held for {held_s} s, with updates {new[:3]}")
        missed = update - self._version
        self._seen = {"update": update, "version": self._version, "staleness": missed, "held_s": held_s}
        self._version, self.goes_on = version, bool(goes_on)
        self._learn(new)

    def _waits_for(self, connection: Connection) -> bool:
        """A server that has sent its last weights ends, maybe before these are read."""
        return self.goes_on or not self._complete or self._met[connection.node] < self._barriers

    def _awaited(self) -> str:
        return f"for {self._server.name}"


class Server(_Exchange):
    """The server: applies gradients as they come, and gives weights back as its ledger says.

    It has room for a gradient of each worker, and a copy of each version of the weights that is on its way.

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
    ) -> None:
        """``apply`` changes ``weights`` by one gradient; ``updates`` is how many there are in all."""
        self._gradients = {worker: np.empty_like(weights) for worker in forest.workers}
        super().__init__(name, forest, sockets, self._gradients)
        self._workers = forest.workers
        self._by_node = {connection.node: connection for connection in self._connections}
        self._weights, self._apply = weights, apply
        self._newest, self._copied = memoryview(b""), -1
        self._announced: dict[int, tuple[int, int]] = {}
        self._updates_of: dict[int, tuple[int, float]] = {}
        """By rank, the number of its last update and when it was applied (s)."""
        self.ledger = Ledger(len(forest.workers), updates, staleness(forest))

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:
        """All updates together."""
        self.apply_all(silence_s)
        yield total

    def apply_all(self, timeout_s: float) -> None:
        """Return once all updates are applied, and everyone has been sent the last weights.

        Raises:
            TrialTimeoutError: nothing moved for ``timeout_s``; names the workers waited for.
            WorkerError: a worker is gone, or sent what it cannot have.
        """
        self._until(lambda: self.ledger.is_complete and not self._sending(), timeout_s)

    def said(self) -> dict[str, Any]:
        """The updates in their order, as the fields of each."""
        return {"updates": [astuple(update) for update in self.ledger.order]}

    def start(self, bucket: int) -> None:
        """A server has no gradient."""
        raise ValueError(f"{self._name} serves, and has no bucket {bucket}")

    def wait(self, timeout_s: float) -> float:
        """A server has no gradient."""
        raise ValueError(f"{self._name} serves, and waits for no sum in {timeout_s:g} s")

    def barrier(self, timeout_s: float) -> None:
        """Return once every worker has called this, and knows that all have.

        Raises:
            TrialTimeoutError, WorkerError: as :meth:`serve`.
        """
        self._barriers += 1
        for connection in self._connections:
            self._refuse_end(connection)
        self._until(lambda: min(self._met.values()) >= self._barriers, timeout_s)
        for connection in self._connections:
            self._say(connection, _BARRIER)
        self._until(lambda: not self._sending(), timeout_s)

    def _came(self, connection: Connection, kind: int, note: bytes) -> None:
        if kind == _BARRIER:
            self._met[connection.node] += 1
        elif kind == _NOTE:
            if len(note) != _PUSH.size:
                raise self._misfit(connection, f"a note of {len(note)} bytes")
            iteration, version = _PUSH.unpack(note)
            self._announced[connection.node] = (iteration, version)
        elif connection.node not in self._announced:
            raise self._misfit(connection, "a gradient without a note")
        else:
            self._update(connection, *self._announced.pop(connection.node))

    def _update(self, connection: Connection, iteration: int, version: int) -> None:
        """Apply a worker's gradient, and give weights to whoever may go on now."""
        rank = self._workers.index(connection.node)
        update = self.ledger.apply(rank, version)
        if update.iteration != iteration:
            raise self._misfit(connection, f"iteration {iteration} and not {update.iteration}")
        self._apply(self._gradients[connection.node])
        now_s = time.monotonic()
        self._updates_of[rank] = (self.ledger.version - 1, now_s)
        known = list(self.ledger.given)
        for released in self.ledger.release():
            number, applied_s = self._updates_of[released.rank]
            held_s = 0.0 if released.rank == rank else now_s - applied_s
            self._give(released, _REPLY.pack(number, self.ledger.version, held_s, released.goes_on), known)

    def _give(self, released: Release, reply: bytes, known: Sequence[int]) -> None:
        """Send the newest weights, with the updates in them that are new to the worker, by the version ``known``."""
        if self._copied != self.ledger.version:
            self._newest, self._copied = self._weights.copy().data.cast("B"), self.ledger.version
        new = self.ledger.order[known[released.rank] :]
        connection = self._by_node[self._workers[released.rank]]
        self._say(connection, _NOTE, reply + b"".join(_UPDATE.pack(one.rank, one.iteration) for one in new))
        self._say(connection, _FLOATS, self._newest)

    def _waits_for(self, connection: Connection) -> bool:
        return not self.ledger.is_complete or self._met[connection.node] < self._barriers

    def _awaited(self) -> str:
        stuck = [connection.name for connection in self._connections if connection.sending]
        if stuck:
            return f"for {', '.join(stuck)} to take weights"
        silent = [self._workers[rank] for rank in self.ledger.computing]
        if min(self._met.values()) < self._barriers:
            silent = [node for node, count in self._met.items() if count < self._barriers]
        return f"for {', '.join(self._by_node[node].name for node in sorted(silent))}"
