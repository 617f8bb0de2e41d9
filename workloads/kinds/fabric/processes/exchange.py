"""Notes and floats over connections: the part that all processes of a trial scheduled by MLfabric share.

A message (:mod:`testbed.workloads.sync.framed`) has a note (:mod:`.messages`), or floats, which follow the note that
announces them. Every process of the trial meets in the scheduler: a barrier is a message to it, and one back when
everybody's is there.

What a process is to do later (a transfer that begins in 20 ms) waits in a queue by time.

Neighbours that may be lost are watched: one is lost when its connection ends, or when nothing has come from it for too
long. So that something comes, all send a message without a meaning when they have sent nothing else. Such messages are
no progress: who waits for something else still gives up in time.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from socket import SOL_SOCKET, socket

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import NeighbourError, SpecError, WorkerError
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.clock import Clock
from testbed.workloads.kinds.fabric.processes.coming import Coming
from testbed.workloads.kinds.fabric.processes.messages import (
    LONGEST_BYTES,
    Arrived,
    Give,
    Gradient,
    Nears,
    Note,
    Pass,
    Send,
    SendSums,
    Weights,
    decode,
    encode,
)
from testbed.workloads.sync.connection import HEADER_BYTES, Connection, LostError, lost
from testbed.workloads.sync.framed import Framed
from testbed.workloads.sync.tcp_info import Sent, sent

_BARRIER, _NOTE, _FLOATS, _ALIVE = range(4)
_SIGNS = 8
"""Number of signs of life that a process gives within the time of silence after which it counts as lost."""
_SO_MAX_PACING_RATE = 47
"""Socket option for the pacing rate in bytes per second (asm-generic/socket.h); Python does not name it."""
_UNPACED = 2**32 - 1
"""The rate that stands for no limit (socket(7))."""

Floats = NDArray[np.float32]
_RETURN_AFTER = 1.5
"""How many times as long as others a neighbour that may be started again may be silent. If it stands still, it is ended
before it is started again, and that must be noted by then."""


class Seek:
    """Search for a neighbour that is started again."""

    def __init__(self, dial: Callable[[Callable[[], None]], socket], fenced: Path) -> None:
        """Set up; ``dial`` connects to the neighbour, and calls its argument again and again meanwhile. A line is added
        to the file ``fenced`` each time a neighbour that stood still is ended, before it is started again."""
        self._dial, self._fenced, self._known_bytes = dial, fenced, 0

    def __call__(self, meanwhile: Callable[[], None]) -> socket:
        found = self._dial(meanwhile)
        self._known_bytes = self._bytes
        return found

    def is_due(self) -> bool:
        """Whether a neighbour that stood still has been ended since it was last found."""
        return self._bytes > self._known_bytes

    @property
    def _bytes(self) -> int:
        try:
            return self._fenced.stat().st_size
        except FileNotFoundError:
            return 0


def check_floats(floats: object, count: int, whose: str) -> Floats:
    """Return a program's array, if it is float32[count].

    Raises:
        SpecError: it is not.
    """
    if isinstance(floats, np.ndarray) and floats.dtype == np.float32 and floats.shape == (count,):
        return floats
    got = f"{floats.dtype}{list(floats.shape)}" if isinstance(floats, np.ndarray) else f"a {type(floats).__name__}"
    raise SpecError(
        f"{whose} must be float32[{count}], and is {got}",
        fix="give all tensors in one array, such as numpy.concatenate([one.ravel() for one in tensors])",
    )


def check_room(floats: Floats, whose: str) -> None:
    """
    Raises:
        SpecError: nothing can be written to the array.
    """
    if not floats.flags.writeable:
        raise SpecError(f"{whose} is read-only", fix="give a copy: numpy.array(weights)")


def check_left(plan: Fabric, lost: Collection[int]) -> None:
    """
    Raises:
        NeighbourError: all workers are lost; maybe it is this process that the others have lost.
    """
    if set(plan.workers) <= set(lost):
        raise NeighbourError(
            "no worker is left: all of them have ended, or nothing reaches this process any more",
            fix="see why they ended, or kill fewer, and cut no server off for longer than failover",
        )


class Exchange(Framed):
    """Messages with neighbours, one connection each."""

    _plan: Fabric

    def __init__(self, name: str, names: Mapping[int, str], sockets: Mapping[int, socket]) -> None:
        """Set up; ``names`` are those of the processes at the other ends, by their node."""
        super().__init__(name, [Connection(peer, names[peer], sock) for peer, sock in sockets.items()])
        self._names = names
        self._by_node = {connection.node: connection for connection in self._connections}
        self._announced: dict[int, tuple[Note, Floats]] = {}
        self._coming: dict[int, Coming] = {}
        """The announced floats that are on their way, by neighbour."""
        self._clock = Clock()
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.met: dict[int, int] = dict.fromkeys(sockets, 0)
        """Number of barriers that each neighbour has come to, or for the scheduler, that it has ended."""
        self._barriers = 0
        self._over = False
        self._losable: Collection[int] = ()
        self._loss_s, self._look_s = math.inf, math.inf
        self._heard_s: dict[int, float] = {}
        self._signs = self._told_bytes = 0
        self._signed_s = -math.inf
        self._has_come = False
        """Whether something came in this step, besides signs of life."""
        self._former: dict[int, tuple[int, Sent]] = {}
        """Bytes that were sent to each neighbour that was lost."""
        self._returning: Mapping[int, Seek] = {}
        self._earlier: dict[int, tuple[int, Sent]] = {}
        """Bytes that were sent, before it was lost, to each neighbour that is back."""

    @property
    def wire_bytes(self) -> int:
        former = sum(count for count, _ in (*self._former.values(), *self._earlier.values()))
        return former + super().wire_bytes

    @property
    def sent(self) -> dict[int, Sent]:
        known = super().sent | {node: told for node, (_, told) in self._former.items()}
        return known | {node: known[node] + told for node, (_, told) in self._earlier.items()}

    @abstractmethod
    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        """Handle a note that has come, with the floats that it announced."""

    def _room(self, connection: Connection, note: Note) -> Floats | None:
        """Return the array for the floats that follow a note; None where none do."""
        return None

    def _waits_for(self, connection: Connection) -> bool:
        """Whether something is still to come from this neighbour, so that it may not have ended."""
        return not self._over

    def _say(self, node: int, note: Note, floats: Floats | None = None) -> None:
        """Queue a note for a neighbour, and floats, which must stay as they are until they are sent. A neighbour that
        is lost gets none."""
        if node in self._former:
            return
        connection, told = self._by_node[node], encode(note)
        self._push(connection, _NOTE, memoryview(told), len(told))
        if floats is not None:
            self._push(connection, _FLOATS, floats.data.cast("B"))

    def _say_barrier(self, node: int) -> None:
        self._push(self._by_node[node], _BARRIER, memoryview(b""))

    def _pace(self, node: int, rate_bps: float) -> None:
        """Send to a neighbour no faster from now on; 0 for as fast as TCP goes."""
        if node in self._former:
            return
        rate = min(_UNPACED, round(rate_bps / 8)) if rate_bps else _UNPACED
        self._by_node[node].sock.setsockopt(SOL_SOCKET, _SO_MAX_PACING_RATE, rate.to_bytes(4, "little"))

    # What the scheduler says of times.

    def _begin_s(self, note: Send | SendSums | Pass | Give) -> float:
        """Return when a note was sent, by this process's clock, as if notes took no time: waits begin then."""
        now_s = time.monotonic()
        if note.said_s is None:
            return now_s
        self._clock.heard(note.said_s, now_s)
        return self._clock.here_s(note.said_s)

    def _arrival(self, members: tuple[int, ...], source: int, shard: int) -> Arrived:
        """Make the note for the scheduler about data that has just arrived."""
        return Arrived(members, source, shard, self._clock.told_s(time.monotonic()))

    # What is to be done later.

    def _at(self, due_s: float, action: Callable[[], None]) -> None:
        """Call ``action`` at ``due_s`` (``time.monotonic``)."""
        heapq.heappush(self._later, (due_s, next(self._numbers), action))

    def _patience_s(self, timeout_s: float) -> float:
        due_s = min(self._later[0][0] if self._later else math.inf, self._look_s)
        return min(timeout_s, max(0.0, due_s - time.monotonic()))

    def _move(self) -> bool:
        done = False
        while self._later and self._later[0][0] <= time.monotonic():
            heapq.heappop(self._later)[2]()
            done = True
        if time.monotonic() >= self._look_s:
            self._look_for_life()
        try:
            return super()._move() or done
        except LostError as error:
            losable = error.node in self._losable or error.node in self._returning
            if math.isinf(self._loss_s) or (not losable and self._awaits(error.node)):
                raise
            self._lose(error.node)
            return True

    def _step(self, timeout_s: float) -> bool:
        """Do one step of the loop. Signs of life, given and got, do not count as progress."""
        self._has_come = False
        moved = super()._step(timeout_s)
        if math.isinf(self._loss_s):
            return moved
        former = sum(count for count, _ in (*self._former.values(), *self._earlier.values()))
        told_bytes = former + sum(one.sent_bytes for one in self._connections) - HEADER_BYTES * self._signs
        has_told, self._told_bytes = told_bytes > self._told_bytes, max(told_bytes, self._told_bytes)
        return self._has_come or has_told

    # Neighbours that are lost.

    def _watch(
        self, losable: Collection[int], loss_s: float | None, returning: Mapping[int, Seek] | None = None
    ) -> None:
        """Notice from now on when neighbours are lost. One is lost when its connection ends, or when nothing comes from
        it for ``loss_s``. Only ``losable`` ones may be lost: the loss of another is the end of this process; with
        ``loss_s`` None, that of any. Those that are ``returning`` are started again when they end, or stood still and
        were ended; otherwise their silence is the end."""
        if loss_s is None:
            return
        self._losable, self._loss_s, self._returning = losable, loss_s, returning or {}
        self._look_s = time.monotonic()
        self._heard_s = dict.fromkeys(self._by_node, self._look_s)

    def _awaits(self, node: int) -> bool:
        return node in self._by_node and self._waits_for(self._by_node[node])

    def _look_for_life(self) -> None:
        """Give a sign of life, and lose the neighbours that have given none.

        Raises:
            LostError: one of them may not be lost.
        """
        now_s = time.monotonic()
        if now_s - self._look_s > self._loss_s / 2:  # this process stood still: what others have sent is still unread
            self._heard_s = dict.fromkeys(self._heard_s, now_s)
        self._look_s = now_s + self._loss_s / _SIGNS
        self._give_signs(now_s)
        for connection in tuple(self._wires):
            node, seek = connection.node, self._returning.get(connection.node)
            most_s = self._loss_s * (_RETURN_AFTER if seek else 1)
            if now_s - self._heard_s[node] <= most_s or not self._waits_for(connection):
                continue
            if node not in self._losable and not (seek and seek.is_due()):
                raise lost(connection, f"nothing came from it for {most_s:g} s")
            self._lose(node)

    def _give_signs(self, now_s: float) -> None:
        """Send a sign of life to all neighbours that get nothing else."""
        self._signed_s = now_s
        for connection in self._wires:
            if not connection.sending and not connection.closed:
                self._push(connection, _ALIVE, memoryview(b""))
                self._signs += 1

    def _stay_alive(self) -> None:
        """Give signs of life, if it is time, while this process does nothing else. Nothing is read meanwhile."""
        now_s = time.monotonic()
        if now_s >= self._signed_s + self._loss_s / _SIGNS:
            self._give_signs(now_s)
            self._hand_over()

    def _hand_over(self) -> None:
        """Give the kernel as much of what is queued as it takes now, while this process does nothing else."""
        for connection in self._wires:
            with suppress(LostError):  # the loop will see it
                while connection.sending and connection.flush():
                    pass

    def _lose(self, node: int) -> None:
        """Note the loss of a neighbour, if it was not lost before. Not to be called while connections are looked
        through."""
        connection = self._by_node.get(node)
        if connection is None:
            return
        is_loss = self._waits_for(connection)
        self._former[node] = connection.sent_bytes, sent(connection.sock)
        self._connections = [one for one in self._connections if one is not connection]
        descriptor = connection.sock.fileno()
        self._epoll.unregister(descriptor)
        del self._by_descriptor[descriptor]
        connection.sock.close()
        del self._by_node[node]
        self._announced.pop(node, None)
        self._coming.pop(node, None)
        self._into.pop(node, None)
        if is_loss:
            self._has_lost(node)

    def _has_lost(self, node: int) -> None:
        """React to the loss of a neighbour."""

    def _has_again(self, node: int, sock: socket) -> None:
        """Take back a neighbour that was lost. Not to be called while connections are looked through."""
        count, told = self._former.pop(node)
        before, told_before = self._earlier.get(node, (0, Sent()))
        self._earlier[node] = count + before, told + told_before
        connection = Connection(node, self._names[node], sock)
        self._connections = [*self._connections, connection]
        self._by_node[node] = connection
        self._heard_s[node] = time.monotonic()
        self._register(connection)

    # What comes.

    def _take(self, connection: Connection) -> bool:
        came = super()._take(connection)
        if came:
            now_s = time.monotonic()
            self._heard_s[connection.node] = now_s
            self._has_come |= connection.left > 0
            self._look_at_end(connection, now_s)
        return came

    def _look_at_end(self, connection: Connection, now_s: float) -> None:
        """Tell the scheduler if a transfer is about to end here."""
        coming = self._coming.get(connection.node)
        if coming is None or connection.word is None:
            return
        left_s = coming.ends_in_s(connection.left, now_s)
        if left_s is not None:
            self._nears(connection.node, self._announced[connection.node][0], left_s)

    def _nears(self, source: int, note: Note, left_s: float) -> None:
        """Tell the scheduler how long announced data still takes to arrive, if it is data that the scheduler plans."""
        if isinstance(note, Gradient | Weights):
            members = note.members if isinstance(note, Gradient) else ()
            at_s = self._clock.told_s(time.monotonic())
            self._say(self._plan.scheduler, Nears(members, source, left_s, note.shard, at_s))

    def _room_for(self, connection: Connection, kind: int, length: int) -> memoryview:
        announced = self._announced.get(connection.node)
        if kind > _ALIVE or (announced is None) == (kind == _FLOATS) or length > LONGEST_BYTES:
            raise self._misfit(connection, f"a message of kind {kind} and {length:,} bytes")
        if announced:
            return announced[1].data.cast("B")
        return memoryview(bytearray(length if kind == _NOTE else 0))

    def _message(self, connection: Connection, kind: int, room: memoryview) -> None:
        self._has_come |= kind != _ALIVE
        if kind == _BARRIER:
            self.met[connection.node] += 1
        elif kind == _ALIVE:
            return
        elif kind == _FLOATS:
            self._coming.pop(connection.node, None)
            self._came(connection, *self._announced.pop(connection.node))
        else:
            try:
                note = decode(bytes(room))
            except ValueError as error:
                raise self._misfit(connection, error) from error
            floats = self._room(connection, note)
            if floats is None:
                self._came(connection, note, None)
            else:
                self._announced[connection.node] = note, floats
                self._coming[connection.node] = Coming(floats.nbytes, time.monotonic())

    def _misfit(self, connection: Connection, what: object) -> WorkerError:
        return WorkerError(
            f"{self._name} got {what} from {connection.name}, and does not expect it",
            fix="report it: the protocol is broken",
        )
