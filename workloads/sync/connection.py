"""One neighbour of the engine: messages out in the order given, bytes in where the engine wants them.

The socket is non-blocking and edge-triggered: after a short read or write it is left alone until the kernel reports
that there is more, so a chunk costs about one system call at each end and none to switch interest on and off. A read
takes the rest of a payload and the header of the message after it together, for the same reason.

A message of a lower rank overtakes those of higher ranks that wait here. What the kernel holds cannot be overtaken, so
an ordered connection lets it hold little.
"""

from __future__ import annotations

import heapq
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from testbed.base.errors import NeighbourError
from testbed.workloads.sync.tcp_info import unacknowledged_bytes, unread_bytes

HEADER_BYTES = 4
_BUFFERS_PER_SEND = 8
"""Buffers (two a message) handed to one sendmsg: enough to make system calls rare, few enough to stay fair."""
UNSENT_BYTES = 16 * 2**10
"""Bytes that the kernel may hold of an ordered connection before it has put them on the wire (TCP_NOTSENT_LOWAT): what
a link of 1 Gbit/s sends in the 0.1 ms that the loop takes to come round."""
LEAST_AWAITED_BYTES, MOST_AWAITED_BYTES = 2**15, 2**19
"""Limits of the bytes of a payload that must be there, if not its rest, before a process is woken (SO_RCVLOWAT). A
chunk cannot be passed on before it is complete, so to be woken for each packet only takes processor time."""
BUFFER_SHARE = 4
"""Divisor of the receive buffer: a process is woken at the latest when a fourth of it is full. Where a program asks for
more than the buffer has room for, the kernel grows it, and lets it grow no further (``tcp_set_rcvlowat``, Linux's
net/ipv4/tcp.c): so the connection would stay slow."""

LAST_PACKET_BYTES = 1024
"""Size of the last bytes of an iteration on a connection, which are a packet of their own. A shaper hands the last
packet down before its time has come, so that a large one would make the iteration seem shorter."""

LINGER_S = 2.0
"""Longest time (s) for which a process waits at its end for what it has sent to arrive."""
LOOK_S = 0.001
"""Time (s) between two looks at what the kernel has of a connection, or at the neighbour's room. The kernel reports
neither."""

Act = Callable[[], None]


class Connection:
    """State of one connection; the engine reads and writes the public attributes.

    Attributes:
        node, name: the neighbour.
        readable, writable: what the kernel last said; true until a call comes back short.
        hung_up: the kernel said that the stream's end follows what is still to be read.
        closed: the end has been read.
        word: the header of the message being received; None between messages.
        held: that message cannot be taken yet, and reading stops.
        admitted: that message is being taken.
        left: its payload bytes still to come.
        carry: its last 0 to 3 bytes, when a read ended within a float.
        uncut_bytes: what is still to be sent before a packet ends, and another begins; 0 or less for no matter where.
        pushed_bytes, sent_bytes: of all messages, headers included, that were queued, and of what the kernel has taken.
    """

    def __init__(
        self,
        node: int,
        name: str,
        sock: socket.socket,
        *,
        ordered: bool = False,
        unsent_bytes: int = UNSENT_BYTES,
        header_bytes: int = HEADER_BYTES,
    ) -> None:
        """Set up; ``ordered`` says that messages will have different ranks; of such a connection, the kernel may hold
        ``unsent_bytes`` that are not on the wire yet."""
        sock.setblocking(False)
        if ordered:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)
        self._header_bytes = header_bytes
        self.node = node
        self.name = name
        self.sock = sock
        self.readable = self.writable = True
        self.hung_up = self.closed = False
        self.word: int | None = None
        self.held = self.admitted = False
        self.left = 0
        self.carry = b""
        self.sent_bytes = self.pushed_bytes = self.uncut_bytes = 0
        self._outbox: deque[bytes | memoryview] = deque()
        self._whole: deque[Act | None] = deque()
        """Beside each buffer of the outbox: what to call when it has left, if it ends a message."""
        self._queue: list[tuple[int, int, bytes, memoryview, Act | None, Act | None]] = []
        self._pushed = 0
        self._begun = 1 if ordered else _BUFFERS_PER_SEND - 1
        self._header = memoryview(bytearray(header_bytes))
        self._header_have = 0
        self._buffer_bytes = 0
        self._awaited_bytes = 1

    @property
    def header(self) -> memoryview:
        """Bytes of the header that was read last, until the payload is read."""
        return self._header

    @property
    def has_unread(self) -> bool:
        """Whether something has come that was not read yet; a header may have been read with the payload before it."""
        return self._header_have > 0 or unread_bytes(self.sock) > 0

    @property
    def sending(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._outbox or self._queue)

    @property
    def payload_bytes(self) -> int:
        """Payload bytes of all messages; only once nothing waits to be sent."""
        return self.sent_bytes - self._header_bytes * self._pushed

    def push(self, word: int, payload: memoryview, rank: int = 0, turn: Act | None = None) -> None:
        """Queue one message behind those of its rank and below. ``turn`` is called when its turn to be sent has come,
        and may still change ``payload``, which must then stay as it is until it is sent."""
        self.push_raw(word.to_bytes(self._header_bytes, "big"), payload, rank, turn)

    def push_raw(
        self, header: bytes, payload: memoryview, rank: int = 0, turn: Act | None = None, left: Act | None = None
    ) -> None:
        """Queue a message as :meth:`push` does, with the header's bytes; ``left`` is called when all of it is sent."""
        heapq.heappush(self._queue, (rank, self._pushed, header, payload, turn, left))
        self._pushed += 1
        self.pushed_bytes += HEADER_BYTES + len(payload)

    def unsent(self) -> Iterator[memoryview]:
        """Yield the payloads that wait to be sent, in whole or in part."""
        yield from (buffer for buffer in self._outbox if isinstance(buffer, memoryview))
        yield from (message[3] for message in self._queue)

    def forget(self) -> None:
        """Drop what waits to be sent to the neighbour, which is gone, and may be."""
        self.closed = True
        self.drop()

    def drop(self) -> None:
        """Send nothing of what waits. What has come can still be read."""
        self._queue.clear()
        self._outbox.clear()
        self._whole.clear()

    def take_back(self) -> None:
        """Drop the one message that waits, which is a header alone."""
        self.drop()
        self._pushed -= 1
        self.pushed_bytes -= HEADER_BYTES

    def abandon(self) -> None:
        """Send no more than the message that has begun to leave."""
        self._queue.clear()

    def flush(self, most_bytes: int | None = None) -> int:
        """Hand some of what is queued to the kernel, at most ``most_bytes``, with one system call; return bytes.

        Raises:
            NeighbourError: the neighbour is gone.
        """
        if self.closed:
            raise lost(self, "it was closed")
        while self._queue and len(self._outbox) < self._begun:
            _, _, header, payload, turn, whole = heapq.heappop(self._queue)
            if turn is not None:
                turn()
            self._outbox.append(header)
            if payload:
                self._outbox.append(payload)
                self._whole.append(None)
            self._whole.append(whole)
        buffers = list(self._outbox)
        offered = sum(map(len, buffers))
        is_end = 0 < self.uncut_bytes <= (offered if most_bytes is None else min(offered, most_bytes))
        if is_end:
            most_bytes = self.uncut_bytes
        flags = socket.MSG_EOR if is_end else 0
        try:
            count = self.sock.sendmsg(buffers if most_bytes is None else _first(buffers, most_bytes), (), flags)
        except BlockingIOError:
            self.writable = False
            return 0
        except OSError as error:
            raise lost(self, error.strerror or str(error)) from error
        self.sent_bytes += count
        self.uncut_bytes -= count
        left = count
        for buffer in buffers:
            if left < len(buffer):
                self._outbox[0] = memoryview(buffer)[left:]
                self.writable = count == most_bytes
                break
            left -= len(buffer)
            self._outbox.popleft()
            if (whole := self._whole.popleft()) is not None:
                whole()
        return count

    def read_header(self) -> int | None:
        """Read the next message's header; None while it is incomplete."""
        if self._header_have < self._header_bytes:
            missing = self._header_bytes - self._header_have
            self._header_have += self._receive([self._header[self._header_have :]], missing)
            if not self.readable:
                self._wake_at(0)
        if self._header_have < self._header_bytes:
            return None
        self._header_have = 0
        return int.from_bytes(self._header, "big")

    def read_payload(self, into: memoryview) -> int:
        """Read the rest of the payload into ``into``, and the next header if that is there too; return payload bytes.

        ``into`` is at most ``left`` bytes long.
        """
        room = len(into)
        if room == self.left:
            count = self._receive([into, self._header], room + self._header_bytes)
        else:
            count = self._receive([into], room)
        payload = min(count, room)
        self._header_have = count - payload
        self.left -= payload
        if not self.readable:
            self._wake_at(self.left)
        return payload

    def read_terms(self, scratch: memoryview, itemsize: int) -> tuple[int, int, int]:
        """Read some of a partial sum's numbers of so many bytes into ``scratch``. Return how many payload bytes came,
        at which byte from the payload's end the first number begins that is whole now, and how many are. A number that
        has come in part stays for the next time."""
        carried = len(self.carry)
        if carried:
            scratch[:carried] = self.carry
        before_end = self.left + carried
        count = self.read_payload(scratch[carried : carried + min(self.left, len(scratch) - carried)])
        numbers, rest = divmod(carried + count, itemsize)
        self.carry = bytes(scratch[itemsize * numbers : carried + count]) if rest else b""
        return count, before_end, numbers

    def _wake_at(self, left: int) -> None:
        """Let the kernel report data once there is as much of a payload as is worth it, if so many bytes of one are to
        come; else at any."""
        if left > self._buffer_bytes // BUFFER_SHARE:
            self._buffer_bytes = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        awaited = min(left, MOST_AWAITED_BYTES, self._buffer_bytes // BUFFER_SHARE)
        if awaited < LEAST_AWAITED_BYTES:
            awaited = 1
        if awaited != self._awaited_bytes:
            self._awaited_bytes = awaited
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, awaited)

    def _receive(self, buffers: Sequence[memoryview], room: int) -> int:
        """Make one system call into buffers of so many bytes; return 0 when nothing is there, or at the end of the
        stream."""
        try:
            count = self.sock.recvmsg_into(buffers)[0]
        except BlockingIOError:
            self.readable = False
            return 0
        except ConnectionError:
            count = 0
        if count == 0:
            self.closed, self.readable = True, False
        elif count < room and not self.hung_up:
            self.readable = False  # a short read has emptied the socket (epoll(7)), unless the stream's end follows it
        return count


def linger(connections: Iterable[Connection]) -> None:
    """Wait until what was sent has arrived, for :data:`LINGER_S` at most."""
    end_s = time.monotonic() + LINGER_S
    while any(unacknowledged_bytes(one.sock) for one in connections) and time.monotonic() < end_s:
        time.sleep(LOOK_S)


def _first(buffers: Iterable[bytes | memoryview], most_bytes: int) -> Iterator[bytes | memoryview]:
    """Yield the buffers, cut after ``most_bytes``."""
    for buffer in buffers:
        if most_bytes <= 0:
            return
        yield memoryview(buffer)[:most_bytes]
        most_bytes -= len(buffer)


class LostError(NeighbourError):
    """A neighbour vanished, or is silent; ``node`` is its node."""

    def __init__(self, problem: str, *, fix: str, node: int) -> None:
        super().__init__(problem, fix=fix)
        self.node = node


def lost(connection: Connection, reason: str) -> LostError:
    """Make the error of a neighbour that vanished."""
    return LostError(
        f"lost the connection to {connection.name}: {reason}",
        fix=f"see why the worker on {connection.name} ended",
        node=connection.node,
    )
