"""The gate of a process: it holds what the process sends while circuits move within an iteration (TopoOpt, Appendix D).

Problem: whoever moves circuits has to know what each process has still to send, and what is sent into a circuit that
moves is lost: TCP sends it again after 200 ms at the earliest, 20 times as long as the move of an optical switch.

Chosen: each process has a Unix socket to who moves circuits, and a thread that answers at once, even while the process
computes. Told to hold, a process hands nothing more to the kernel, and says when the kernel has delivered what it had.
For that to be soon, the kernel may hold little of a connection.

A process does not take what it cannot use yet (:mod:`.engine`), and its neighbour's bytes then wait for room. Circuits
for them would carry nothing, and perhaps keep away those that would make room. So each process also says from whom it
takes nothing. And its neighbour gives the kernel no more than there is room for. TCP would send the rest later, perhaps
into a dark circuit.

TCP's notice of new room may be lost in the dark. So when the gate opens, a process sends a few bytes to each neighbour
that it may send to. With them goes how much room there is for that neighbour. The bytes are the first of what is
queued, or else a header without a meaning, :data:`NOTHING`. Some room is kept for them, since both directions may be
full.

Rejected: lines in the process's samples (they are looked at every 3 ms, and nothing leads back); a page of memory that
both see (it wakes nobody: twelve processes that look each millisecond take a third of a core). Now a process looks each
millisecond only while it holds, or while a neighbour has no room for what waits.
"""

from __future__ import annotations

import math
import os
import select
import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.job import Gated
from testbed.workloads.sync.connection import HEADER_BYTES, LOOK_S, Connection, LostError, linger
from testbed.workloads.sync.tcp_info import room_bytes, sent, unacknowledged_bytes

UNSENT, HOLD, MOVE, GO = b"u", b"h", b"m", b"g"
"""Words to a process: tell what is unsent; hold it; everybody holds; go on, with a byte for each node, 1 where it may
send to that one."""
HELLO, DRAINED, ENDED = b"n", b"d", b"e"
"""Words from a process, besides the answer to :data:`UNSENT`: it is there; it holds, and all that it has sent has
arrived; it has sent all. With the last two come the bytes that it has sent so far."""
NOTHING = (1 << 32) - 1
"""Header of a message without a meaning."""
_HEAD = struct.Struct("=ci")
GREETING_BYTES = HEADER_BYTES
"""Bytes of the greeting that a neighbour gets when the gate has opened: as many as of :data:`NOTHING`."""
LEFT_BYTES = 256 * GREETING_BYTES
"""Least bytes of a neighbour's room that are kept for greetings: for 256 even if it takes nothing."""
ONCE = 2
"""Value of a socket option: acknowledge what waits for that now, and later as before (``__tcp_sock_set_quickack``,
Linux's net/ipv4/tcp.c)."""


class Said(NamedTuple):
    """Message from a process to the controller of the circuits.

    Attributes:
        word, node: which word, and the process's node.
        count_bytes: int64[nodes], of streams, by destination: what is unsent, or what was sent.
        wire_bytes: int64[nodes], of all frames that were sent, headers and acknowledgements included.
        refuses: bool[nodes], from whom it takes nothing.
    """

    word: bytes
    node: int
    count_bytes: NDArray[np.int64]
    wire_bytes: NDArray[np.int64]
    refuses: NDArray[np.bool_]


def pack(said: Said) -> bytes:
    """Encode it as a message."""
    counts = np.concatenate([said.count_bytes, said.wire_bytes]).astype("=i8")
    return _HEAD.pack(said.word, said.node) + counts.tobytes() + said.refuses.tobytes()


def unpack(message: bytes, nodes: int) -> Said:
    """Decode a message of a process.

    Raises:
        ValueError: it is none.
    """
    if len(message) != most_bytes(nodes):
        raise ValueError(f"a message of {len(message)} bytes")
    word, node = _HEAD.unpack_from(message)
    counts = np.frombuffer(message, "=i8", 2 * nodes, _HEAD.size)
    refuses = np.frombuffer(message, np.uint8, offset=_HEAD.size + counts.nbytes)
    is_known = word in (UNSENT, HELLO, DRAINED, ENDED) and 0 <= node < nodes
    if not is_known or (counts < 0).any() or (refuses > 1).any():
        raise ValueError("a message that makes no sense")
    return Said(word, node, counts[:nodes], counts[nodes:], refuses.astype(np.bool_))


def most_bytes(nodes: int) -> int:
    """Return the size of a message in bytes."""
    return _HEAD.size + 17 * nodes


def beside(path: Path, connect: bool) -> socket.socket:
    """Return a socket that is connected to the one at ``path``, or, if not ``connect``, that listens there. A path may
    be longer than a socket's name.

    Raises:
        OSError: the system refuses.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        name = f"/proc/self/fd/{folder}/{path.name}"
        if connect:
            sock.connect(name)
        else:
            sock.bind(name)
            sock.listen(socket.SOMAXCONN)
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(folder)
    return sock


class Gate:
    """The gate of the process on ``node``, for all its connections; :class:`.loop.Loop` sends through it."""

    def __init__(self, job: Gated, node: int, nodes: int, connections: Sequence[Connection]) -> None:
        """
        Raises:
            OSError: nobody listens.
        """
        self._node, self._nodes, self._connections = node, nodes, connections
        self._may_send = b"\1" * nodes
        self._reached = set(range(nodes))
        """Nodes that could be sent to since circuits last moved: what is on its way to them can arrive."""
        self._drains = self._is_drained = False
        self._full: set[Connection] = set()
        """Connections whose other end has no room."""
        self._lock = threading.Lock()  # while something is handed to the kernel
        for connection in connections:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, job.kernel_bytes)
        self._awake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._sock = beside(Path(job.path), connect=True)
        self._say(HELLO, np.zeros(nodes, np.int64))
        self._thread = threading.Thread(target=self._listen, name="gate", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """Return a descriptor for epoll: readable once the gate has opened, until :meth:`opened`."""
        return self._awake

    @property
    def patience_s(self) -> float:
        """How long (s) the loop may sleep before it tries to send again."""
        return LOOK_S if self._full else math.inf

    def opened(self) -> None:
        """Note that the process has noticed the open gate; may be called again and again.

        Raises:
            LostError: a neighbour is gone to which something waits to be sent.
        """
        try:
            os.eventfd_read(self._awake)
        except BlockingIOError:  # it has not opened since
            return
        with self._lock:
            for connection in self._connections:
                self._greet(connection)

    def flush(self, connection: Connection) -> int:
        """Hand some of what is queued to the kernel, if that may be sent now and the other end has room for it; return
        bytes.

        Raises:
            LostError: the neighbour is gone.
        """
        with self._lock:
            return self._flush(connection, LEFT_BYTES)

    def may_send(self, node: int) -> bool:
        """Whether something may be sent to a node now."""
        return bool(self._may_send[node])

    def close(self) -> None:
        """End the gate: the process has handed all to the kernel. Wait until that has arrived, and say so."""
        linger(self._connections)
        self._say(ENDED, self._sent_bytes())
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._sock.close()
        os.close(self._awake)

    # The thread.

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        while True:
            if poll.poll(1000 * LOOK_S if self._drains else None):
                try:
                    message = self._sock.recv(1 + self._nodes)
                except OSError:
                    message = b""
                if not message:  # nobody moves circuits any more
                    break
                self._hear(message)
            if self._drains:
                self._drain()
        self._go(b"\1" * self._nodes)

    def _hear(self, message: bytes) -> None:
        word = message[:1]
        if word == UNSENT:
            self._say(UNSENT, self._unsent_bytes())
        elif word == HOLD:
            with self._lock:  # what is being sent is with the kernel then
                self._may_send = bytes(self._nodes)
            self._drains, self._is_drained = True, False
        elif word == MOVE:
            self._drains = False
            self._reached.clear()
        elif word == GO:
            self._go(message[1:])

    def _go(self, may_send: bytes) -> None:
        self._drains = False
        self._reached.update(node for node, may in enumerate(may_send) if may)
        with self._lock:
            self._may_send = may_send
        os.eventfd_write(self._awake, 1)

    def _drain(self) -> None:
        """Acknowledge what has come, for the others, and report once that nothing is on its way from here."""
        on_its_way = 0
        for connection in self._connections:
            with suppress(OSError):  # it has ended
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, ONCE)
            if connection.node in self._reached:
                on_its_way += unacknowledged_bytes(connection.sock)
        if not self._is_drained and not on_its_way:
            self._is_drained = True
            self._say(DRAINED, self._sent_bytes())

    def _say(self, word: bytes, count_bytes: NDArray[np.int64]) -> None:
        refuses = self._by_node([one.held for one in self._connections]) > 0
        with suppress(OSError):  # nobody moves circuits any more
            wire_bytes = self._by_node([sent(one.sock).wire_bytes for one in self._connections])
            self._sock.send(pack(Said(word, self._node, count_bytes, wire_bytes, refuses)), socket.MSG_NOSIGNAL)

    # What is handed to the kernel, under the lock.

    def _greet(self, connection: Connection) -> None:
        if not self.may_send(connection.node) or connection.closed or connection.hung_up:
            return
        if connection.sending:
            self._flush(connection, 0, GREETING_BYTES)
        elif not unacknowledged_bytes(connection.sock) and room_bytes(connection.sock) >= GREETING_BYTES:
            connection.push(NOTHING, memoryview(b""))
            try:
                connection.flush()
            except LostError:  # whoever waits for it reports that; what it has sent can still be read
                connection.take_back()

    def _flush(self, connection: Connection, left_bytes: int, most_bytes: int = 2**31) -> int:
        """Hand up to ``most_bytes`` to the kernel, and leave ``left_bytes`` of the other end's room free."""
        self._full.discard(connection)
        if not self.may_send(connection.node):
            return 0
        most_bytes = min(most_bytes, room_bytes(connection.sock, left_bytes))
        if most_bytes or connection.hung_up or connection.closed:
            return connection.flush(most_bytes)
        self._full.add(connection)
        return 0

    # What was sent, in bytes by destination.

    def _sent_bytes(self) -> NDArray[np.int64]:
        return self._by_node([one.sent_bytes for one in self._connections]) - self._kernel_bytes()

    def _kernel_bytes(self) -> NDArray[np.int64]:
        return self._by_node([unacknowledged_bytes(one.sock) for one in self._connections])

    def _unsent_bytes(self) -> NDArray[np.int64]:
        with self._lock:
            queued = [one.pushed_bytes - one.sent_bytes for one in self._connections]
        return self._by_node(queued) + self._kernel_bytes()

    def _by_node(self, counts: Sequence[int]) -> NDArray[np.int64]:
        found = np.zeros(self._nodes, np.int64)
        np.add.at(found, [one.node for one in self._connections], counts)
        return found
