"""Neighbours that may be lost, and actions that wait for their time.

A neighbour is lost when its connection ends, or when nothing has come from it for too long. So each process sends a
sign of life, a message without a meaning, when it has sent nothing else. Signs of life are no progress: a process that
waits for something else still times out.

Actions of a later time, such as a transfer that begins in 20 ms, wait in a queue by time.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from socket import socket

from testbed.workloads.serving.exchange import FLOATS, Exchange
from testbed.workloads.sync.connection import HEADER_BYTES, Connection, LostError, lost
from testbed.workloads.sync.tcp_info import Sent, added, sent

ALIVE = FLOATS + 1
"""The kind of signs of life."""
_SIGNS = 8
"""Number of signs of life that a process gives within the time of silence after which it counts as lost."""
_RETURN_AFTER = 1.5
"""Factor on the time of silence that a neighbour may have if it may be started again. If it stands still, it is ended
before it is started again, and there must be time to note that."""


class Seek:
    """Search for a neighbour that is started again."""

    def __init__(self, dial: Callable[[Callable[[], None]], socket], fenced: Path) -> None:
        """Set up; ``dial`` connects to the neighbour, and calls its argument again and again meanwhile. A line is added
        to the file ``fenced`` each time a neighbour that stood still is ended, before it is started again."""
        self._dial, self._fenced, self._known_bytes = dial, fenced, 0

    def __call__(self, meanwhile: Callable[[], None]) -> socket:
        sock = self._dial(meanwhile)
        self._known_bytes = self._bytes
        return sock

    def is_due(self) -> bool:
        """Whether a neighbour that stood still has been ended since it was last found."""
        return self._bytes > self._known_bytes

    @property
    def _bytes(self) -> int:
        try:
            return self._fenced.stat().st_size
        except FileNotFoundError:
            return 0


class Watched(Exchange):
    """Messages with neighbours of which some may be lost."""

    _last_kind = ALIVE

    def __init__(self, name: str, names: Mapping[int, str] | Sequence[str], sockets: Mapping[int, socket]) -> None:
        super().__init__(name, names, sockets)
        self._names = names
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._losable: Collection[int] = ()
        self._loss_s, self._look_s = math.inf, math.inf
        self._heard_s: dict[int, float] = {}
        self._signs = self._told_bytes = 0
        self._signed_s = -math.inf
        self._has_come = False
        """Whether something other than signs of life came in this step."""
        self._returning: Mapping[int, Seek] = {}
        self._former: dict[int, tuple[int, Sent]] = {}
        """Bytes that were sent to each neighbour that is lost."""
        self._earlier: dict[int, tuple[int, Sent]] = {}
        """Bytes that were sent, before its loss, to each neighbour that was lost and is back."""

    @property
    def _former_bytes(self) -> int:
        return sum(count for count, _ in (*self._former.values(), *self._earlier.values()))

    @property
    def wire_bytes(self) -> int:
        return self._former_bytes + super().wire_bytes

    @property
    def sent(self) -> dict[int, Sent]:
        former = {node: told for node, (_, told) in self._former.items()}
        return added(super().sent | former, {node: told for node, (_, told) in self._earlier.items()})

    def _take(self, connection: Connection) -> bool:
        came = super()._take(connection)
        if came:
            self._heard_s[connection.node] = time.monotonic()
            self._has_come |= connection.left > 0
        return came

    def _message(self, connection: Connection, kind: int, room: memoryview) -> None:
        if kind != ALIVE:
            self._has_come = True
            super()._message(connection, kind, room)

    # Actions of a later time.

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
            is_awaited = error.node in self._by_node and self._waits_for(self._by_node[error.node])
            if math.isinf(self._loss_s) or (not losable and is_awaited):
                raise
            self._lose(error.node)
            return True

    def _step(self, timeout_s: float) -> bool:
        """Do one step of the loop. Signs of life, given and got, do not count as progress."""
        self._has_come = False
        moved = super()._step(timeout_s)
        if math.isinf(self._loss_s):
            return moved
        live_bytes = sum(connection.sent_bytes for connection in self._connections)
        told_bytes = self._former_bytes + live_bytes - HEADER_BYTES * self._signs
        has_told, self._told_bytes = told_bytes > self._told_bytes, max(told_bytes, self._told_bytes)
        return self._has_come or has_told

    # Neighbours that are lost.

    def _watch(
        self, losable: Collection[int], loss_s: float | None, returning: Mapping[int, Seek] | None = None
    ) -> None:
        """Notice from now on when neighbours are lost: their connection ends, or nothing comes for ``loss_s``.

        This process goes on when one of ``losable`` is lost, and ends when another is. With ``loss_s`` None, it ends
        when any is lost. ``returning`` neighbours are started again after they have ended, or have stood still and
        were ended; if one is silent for another reason, this process ends.
        """
        if loss_s is None:
            return
        self._losable, self._loss_s, self._returning = losable, loss_s, returning or {}
        self._look_s = time.monotonic()
        self._heard_s = dict.fromkeys(self._by_node, self._look_s)

    def _look_for_life(self) -> None:
        """Give a sign of life, and note the loss of neighbours that have given none.

        Raises:
            LostError: one of these neighbours may not be lost.
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
                self._tell(connection, ALIVE)
                self._signs += 1

    def _stay_alive(self) -> None:
        """Give signs of life if it is time. Nothing is read meanwhile."""
        now_s = time.monotonic()
        if now_s >= self._signed_s + self._loss_s / _SIGNS:
            self._give_signs(now_s)
            self._hand_over()

    def _hand_over(self) -> None:
        """Give the kernel as much of the queued data as it takes now."""
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
        before_bytes, before = self._earlier.pop(node, (0, Sent()))
        self._former[node] = before_bytes + connection.sent_bytes, before + sent(connection.sock)
        self._connections = [other for other in self._connections if other is not connection]
        descriptor = connection.sock.fileno()
        self._epoll.unregister(descriptor)
        del self._by_descriptor[descriptor]
        connection.sock.close()
        del self._by_node[node]
        self._into.pop(node, None)
        self._forget(node)
        if is_loss:
            self._has_lost(node)

    def _forget(self, node: int) -> None:
        """Forget the messages of a lost neighbour that have not come whole."""

    def _has_lost(self, node: int) -> None:
        """React to the loss of a neighbour."""

    def _has_again(self, node: int, sock: socket) -> None:
        """Take back a neighbour that was lost. Not to be called while connections are looked through."""
        self._earlier[node] = self._former.pop(node)
        connection = Connection(node, self._names[node], sock)
        self._connections = [*self._connections, connection]
        self._by_node[node] = connection
        self._heard_s[node] = time.monotonic()
        self._register(connection)
