"""Notes and floats over connections: what every process of a trial that MLfabric schedules does the same way.

A message (:mod:`workloads.sync.framed`) has a note (:mod:`.messages`), or floats, which follow the note that announces
them. Every process of the trial meets in the scheduler: a barrier is a message to it, and one back when everybody's is
there.

What a process is to do later (a transfer that begins in 20 ms) waits in a queue by time.
"""

from __future__ import annotations

import heapq
import itertools
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from socket import SOL_SOCKET, socket

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from workloads.kinds.fabric.processes.messages import LONGEST_BYTES, Note, decode, encode
from workloads.sync.connection import Connection
from workloads.sync.framed import Framed

_BARRIER, _NOTE, _FLOATS = range(3)
_SO_MAX_PACING_RATE = 47
"""In bytes per second (asm-generic/socket.h); Python does not name it."""
_UNPACED = 2**32 - 1
"""The rate that stands for none (socket(7))."""

Floats = NDArray[np.float32]


class Exchange(Framed):
    """Messages with neighbours, one connection each."""

    def __init__(self, name: str, names: Mapping[int, str], sockets: Mapping[int, socket]) -> None:
        """``names`` are those of the processes at the other ends, by their node."""
        super().__init__(name, [Connection(peer, names[peer], sock) for peer, sock in sockets.items()])
        self._by_node = {connection.node: connection for connection in self._connections}
        self._announced: dict[int, tuple[Note, Floats]] = {}
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.met: dict[int, int] = dict.fromkeys(sockets, 0)
        """By neighbour, how many barriers it has come to, or of the scheduler, how many it has ended."""
        self._barriers = 0
        self._over = False

    @abstractmethod
    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        """A note has come, with the floats that it announced."""

    def _room(self, connection: Connection, note: Note) -> Floats | None:
        """Where the floats go that follow a note; None where none do."""
        return None

    def _waits_for(self, connection: Connection) -> bool:
        """Whether something is still to come from this neighbour, so that it may not have ended."""
        return not self._over

    def start(self, bucket: int) -> None:
        """Only a worker has a gradient."""
        raise ValueError(f"{self._name} has no bucket {bucket}")

    def wait(self, timeout_s: float) -> float:
        """Only a worker has a gradient."""
        raise ValueError(f"{self._name} waits for no weights in {timeout_s:g} s")

    def _say(self, node: int, note: Note, floats: Floats | None = None) -> None:
        """Queue a note for a neighbour, and floats, which must stay as they are until they are sent."""
        connection, told = self._by_node[node], encode(note)
        self._push(connection, _NOTE, memoryview(told), len(told))
        if floats is not None:
            self._push(connection, _FLOATS, floats.data.cast("B"))

    def _say_barrier(self, node: int) -> None:
        self._push(self._by_node[node], _BARRIER, memoryview(b""))

    def _pace(self, node: int, rate_bps: float) -> None:
        """Send to a neighbour no faster from now on; 0 for as fast as TCP goes."""
        rate = min(_UNPACED, round(rate_bps / 8)) if rate_bps else _UNPACED
        self._by_node[node].sock.setsockopt(SOL_SOCKET, _SO_MAX_PACING_RATE, rate.to_bytes(4, "little"))

    # What is to be done later.

    def _at(self, due_s: float, action: Callable[[], None]) -> None:
        """Call ``action`` at ``due_s`` (``time.monotonic``)."""
        heapq.heappush(self._later, (due_s, next(self._numbers), action))

    def _patience_s(self, timeout_s: float) -> float:
        return min(timeout_s, max(0.0, self._later[0][0] - time.monotonic())) if self._later else timeout_s

    def _move(self) -> bool:
        done = False
        while self._later and self._later[0][0] <= time.monotonic():
            heapq.heappop(self._later)[2]()
            done = True
        return super()._move() or done

    # What comes.

    def _room_for(self, connection: Connection, kind: int, length: int) -> memoryview:
        announced = self._announced.get(connection.node)
        if kind not in (_BARRIER, _NOTE, _FLOATS) or (announced is None) == (kind == _FLOATS) or length > LONGEST_BYTES:
            raise self._misfit(connection, f"a message of kind {kind} and {length:,} bytes")
        if announced:
            return announced[1].data.cast("B")
        return memoryview(bytearray(length if kind == _NOTE else 0))

    def _message(self, connection: Connection, kind: int, room: memoryview) -> None:
        if kind == _BARRIER:
            self.met[connection.node] += 1
        elif kind == _FLOATS:
            self._came(connection, *self._announced.pop(connection.node))
        else:
            try:
                note = decode(bytes(room))
            except (ValueError, TypeError) as error:
                raise self._misfit(connection, f"{bytes(room[:80])!r}") from error
            floats = self._room(connection, note)
            if floats is None:
                self._came(connection, note, None)
            else:
                self._announced[connection.node] = note, floats

    def _misfit(self, connection: Connection, what: object) -> WorkerError:
        return WorkerError(
            f"{self._name} got {what} from {connection.name}, and does not expect it",
            fix="report it: the protocol is broken",
        )
