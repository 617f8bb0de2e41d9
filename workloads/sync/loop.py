"""One thread, many connections: an epoll loop that reads and writes whatever can be read and written.

Blocking calls in a fixed order deadlock or idle, and a thread a connection fights for the interpreter lock. Here every
connection is non-blocking and edge-triggered; a step moves what can move, and sleeps in the kernel only when that is
nothing. What messages are and what follows from them is the subclass's.
"""

from __future__ import annotations

import select
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from testbed.base.errors import TrialTimeoutError
from testbed.workloads.job import Gated
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.gate import Gate
from testbed.workloads.sync.session import Session
from testbed.workloads.sync.tcp_info import Sent, congestion_control, sent

_GONE = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
_EDGE = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET


class Loop(Session):
    """A loop that moves messages over ``connections``, each served in their order once a turn; ``name`` is this
    node's."""

    def __init__(self, name: str, connections: Sequence[Connection]) -> None:
        self._name = name
        self._connections = connections
        self._by_descriptor = {connection.sock.fileno(): connection for connection in connections}
        self._epoll = select.epoll()
        for descriptor in self._by_descriptor:
            self._epoll.register(descriptor, _EDGE)
        self._gate: Gate | None = None

    def wait_at(self, gate: Gated, node: int, nodes: int) -> None:
        """Send from now on only what a gate lets through; this is the process on ``node``, of so many."""
        self._gate = Gate(gate, node, nodes, self._connections)
        self._epoll.register(self._gate.fileno(), select.EPOLLIN)

    def _register(self, connection: Connection) -> None:
        """Take in a connection that has come later."""
        self._by_descriptor[connection.sock.fileno()] = connection
        self._epoll.register(connection.sock.fileno(), _EDGE)

    @property
    def congestion_control(self) -> str:
        """The congestion control that the kernel really gave; empty for a node without neighbours."""
        return " ".join(sorted({congestion_control(connection.sock) for connection in self._wires}))

    @property
    def wire_bytes(self) -> int:
        """Bytes handed to TCP so far, headers included."""
        return sum(connection.sent_bytes for connection in self._wires)

    @property
    def sent(self) -> dict[int, Sent]:
        """The bytes that the kernel has put on the wire so far, by neighbour."""
        found: dict[int, Sent] = {}
        for connection in self._wires:
            found[connection.node] = found.get(connection.node, Sent()) + sent(connection.sock)
        return found

    def start(self, bucket: int) -> None:
        """
        Raises:
            ValueError: this process serves others, and synchronises no gradient bucket by bucket.
        """
        raise ValueError(f"{self._name} has no gradient, so it has no bucket {bucket}")

    def wait(self, timeout_s: float) -> float:
        """
        Raises:
            ValueError: as :meth:`start`.
        """
        raise ValueError(f"{self._name} has no gradient, so it waits for no sum in {timeout_s:g} s")

    def poll(self, timeout_s: float) -> None:
        """Move what there is, and wait for more, until ``timeout_s`` have passed; 0 makes one pass.

        Raises:
            WorkerError: a neighbour is gone.
        """
        end = time.monotonic() + timeout_s
        self._step(timeout_s)
        while (left := end - time.monotonic()) > 0:
            self._step(left)

    def close(self) -> None:
        """Close every connection."""
        if self._gate is not None:
            self._gate.close()
        self._epoll.close()
        for connection in self._connections:
            connection.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _take(self, connection: Connection) -> bool:
        """Read the connection's next header, or more of its payload; return whether anything came."""

    @abstractmethod
    def _awaited(self) -> str:
        """Say what this waits for, for an error: "for chunks from h1"."""

    @property
    def _wires(self) -> Sequence[Connection]:
        """The connections with other hosts."""
        return self._connections

    def _stuck(self) -> list[Connection]:
        """List the connections on which something waits to be sent."""
        return [connection for connection in self._connections if connection.sending]

    def _sending(self) -> bool:
        return bool(self._stuck())

    def _until(self, done: Callable[[], bool], timeout_s: float) -> None:
        """Loop until ``done``.

        Raises:
            TrialTimeoutError: nothing has moved for ``timeout_s``.
            WorkerError: a neighbour is gone.
        """
        moved_s = time.monotonic()
        while not done():
            left_s = moved_s + timeout_s - time.monotonic()
            if self._step(max(0.0, left_s)):
                moved_s = time.monotonic()
            elif left_s <= 0:
                raise TrialTimeoutError(
                    f"{self._name} made no progress for {timeout_s:g} s; it waits {self._awaited()}",
                    fix="see why they stopped, or raise the timeout",
                )

    def _step(self, timeout_s: float) -> bool:
        """Move what can move now, waiting up to ``timeout_s`` if that is nothing; return whether anything moved."""
        moved = self._move()
        patience_s = 0.0 if moved else self._patience_s(timeout_s)
        if self._gate is not None:
            patience_s = min(patience_s, self._gate.patience_s)
        for descriptor, events in self._epoll.poll(patience_s):
            connection = self._by_descriptor.get(descriptor)
            if connection is None:
                assert self._gate is not None
                self._gate.opened()
                continue
            if events & ~select.EPOLLOUT:
                connection.readable = True
            if events & select.EPOLLOUT:
                connection.writable = True
            if events & _GONE:
                connection.hung_up = True
        return self._move() or moved

    def _patience_s(self, timeout_s: float) -> float:
        """Return how much of ``timeout_s`` may be slept."""
        return timeout_s

    def _move(self) -> bool:
        """Read and write once on each connection that lets us; return whether anything moved."""
        moved = False
        for connection in self._connections:
            if connection.readable and not connection.held and self._take(connection):
                moved = True
            if connection.writable and connection.sending and self._flush(connection):
                moved = True
        return moved

    def _is_queued(self, memory: object) -> bool:
        """Whether a payload in ``memory``, the object whose buffer it is, waits to be sent."""
        return any(payload.obj is memory for one in self._connections for payload in one.unsent())

    def _flush(self, connection: Connection) -> int:
        """Hand some of what is queued to the kernel, as much as the gate lets through; return bytes."""
        return connection.flush() if self._gate is None else self._gate.flush(connection)
