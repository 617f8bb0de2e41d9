"""One process's connections, over which many calls are on their way at once. One thread, no locks.

Problem: in a script, rank A may wait for call n before it makes call n + 1, while rank B has made both. If A left what
B sends for n + 1 in its connection, what B sends for n behind it would never come. If A read it, it would have to keep
it, without bound.

Chosen: a process tells each neighbour in a call that it has made it (*begin*, ahead of all that waits to be sent), and
is sent the call's chunks only then. So whatever comes has a place. Small calls and the first chunk of others do not
wait for that: they leave at once, and are kept where they come early. No more than ``MOST_EARLY`` calls are unanswered
at a neighbour. (MPI's rendezvous and eager protocols.) So a link is busy while the news of a call is on its way. The
same message has the call's signature, so ranks that disagree are told; and a parameter server or a switch, which makes
no calls, learns of one this way.

A message is a header of 20 bytes (group, number of the call in the group, word, length) and then ``length`` bytes. The
word has 1 bit phase, 1 bit control, 30 bits chunk or kind. Numbers of groups are those of :mod:`.channels`.

Rejected: an engine a call, as every call would need connections of its own or the others would have to wait. Numbers of
calls without a group: ranks that are in several groups count differently.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from socket import SHUT_WR, socket
from struct import Struct
from typing import Any

import numpy as np

from testbed.base.errors import NeighbourError, TestbedError, WorkerError
from testbed.workloads.kinds.script.collectives.calls import SIGNATURE_BYTES, Call
from testbed.workloads.kinds.script.collectives.shapes import EARLY_BYTES
from testbed.workloads.kinds.script.engine.channels import called, from_the_wire, on_the_wire
from testbed.workloads.kinds.script.engine.operation import OVER, SUM, Key, Numbers, Operation
from testbed.workloads.sync.connection import Act, Connection, LostError, lost
from testbed.workloads.sync.loop import Loop
from testbed.workloads.sync.tcp_info import Sent

_HEADER = Struct(">QIII")
HEADER_BYTES = _HEADER.size
UNSENT_BYTES = 256 * 2**10
"""Limit on the bytes that the kernel may hold of a connection before they are on the wire: enough that two cores do not
wake up for less, and little enough that the news of a call does not wait long behind a large one."""
MOST_EARLY = 16
"""Limit on the calls of which something was sent to a neighbour that has not made them yet."""
_MOST_KEPT = 4 * MOST_EARLY
"""Limit on the calls whose chunks are kept for one neighbour: more than it may send, and less than memory."""
_CONTROL = 1 << 30
_BEGIN, _BYE, _ABORT = 1, 2, 3
_MOST_TEXT_BYTES = 4096
"""Limit on the bytes of the error that ends all."""
_LAST_WORDS_S = 0.5
"""How long (s) a process that fails tries to tell others why."""
_LOOK_S = 0.5
"""Time (s) between looks at whether a process that leaves has waited long enough."""
_CONTROL_BYTES = {_BEGIN: (SIGNATURE_BYTES,), _BYE: (0,), _ABORT: range(1, _MOST_TEXT_BYTES + 1)}
_LENGTH_MASK = (1 << 32) - 1
_SCRATCH_BYTES = 1 << 18
_LEAVE_S = 1.0
"""How long (s) a process that leaves waits for others to leave, so that the kernel does not throw away data that they
have yet to read."""


_LIBC = ctypes.PyDLL(None)
"""C's library, whose functions are called with the interpreter held. ``os.eventfd_write`` lets go of it, and the loop's
thread takes it. A script's thread then waits for as long as the loop has something to do, which was 5 ms for
a sum of 5 MB, before it goes on with its backward pass."""

_ONCE = ctypes.c_uint64(1)


class _Bell:
    """A bell that wakes the loop: it looks like a connection whose events mean nothing."""

    readable = writable = hung_up = False

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def ring(self) -> None:
        """Ring it, from any thread."""
        _LIBC.eventfd_write(self.descriptor, _ONCE)


class Carrier(Loop):
    """Carrier of calls. All methods but :meth:`submit`, :meth:`call_soon` and :meth:`leave` are the loop's thread's
    own.

    Attributes:
        error: why nothing moves any more; None while it does.
        totals: bytes that were sent, once the loop is over: ``wire_bytes``, and ``sent`` by neighbour.
    """

    def __init__(self, node: int, names: Sequence[str], sockets: Mapping[int, socket]) -> None:
        self.error: BaseException | None = None
        self._node, self._names = node, names
        self._by_node = {peer: self._wire(peer, sock) for peer, sock in sockets.items()}
        self._near = frozenset(sockets)
        """Neighbours in the scheme's trees, whose end is everybody's; others are met for single calls."""
        super().__init__(names[node], list(self._by_node.values()))
        self._ops: dict[Key, Operation] = {}
        self._summed: dict[Key, Operation] = {}
        """Calls among these whose chunks have only to leave."""
        self._signatures: dict[Key, dict[int, bytes]] = {}
        """Signatures from neighbours of calls that this process has not made."""
        self._early: dict[Key, list[tuple[int, int, memoryview]]] = {}
        """Messages of such calls: neighbour, word, and what came."""
        self._over: dict[Key, tuple[Operation, set[int]]] = {}
        """Small calls that are over before these neighbours have made them."""
        self._unanswered: dict[int, set[Key]] = {}
        self._told: Counter[int] = Counter()
        """By neighbour, calls that it was told of."""
        self._absent: dict[int, list[tuple[bytes, memoryview, int, Act | None, Act | None]]] = {}
        """Messages for nodes without a connection yet."""
        self._gone: set[int] = set()
        """Nodes that leave, as they or others have said."""
        self._said_bye: set[int] = set()
        """Neighbours among these that have said so themselves: all that they had to send has come."""
        self._messages: dict[Connection, tuple[Key, int]] = {}
        """Call and word of the message that comes over each connection."""
        self._into: dict[Connection, memoryview] = {}
        self._scratch = np.empty(_SCRATCH_BYTES, np.uint8)
        self._scratch_bytes = self._scratch.data
        self._scratches: dict[np.dtype[Any], Numbers] = {}
        self._inbox: deque[Callable[[], None]] = deque()
        self._bell = _Bell()
        self._by_descriptor[self._bell.descriptor] = self._bell  # type: ignore[assignment]
        self._epoll.register(self._bell.descriptor, select.EPOLLIN | select.EPOLLET)
        self._leaving_s: float | None = None
        self._has_ended = False
        self.totals: dict[str, Any] = {}

    def _wire(self, node: int, sock: socket) -> Connection:
        name = self._names[node]
        return Connection(node, name, sock, ordered=True, unsent_bytes=UNSENT_BYTES, header_bytes=HEADER_BYTES)

    # From any thread.

    def call_soon(self, act: Callable[[], None]) -> None:
        """Have the loop's thread call ``act``."""
        self._inbox.append(act)
        self._bell.ring()
        if self._has_ended:
            self._act()

    def submit(self, operation: Operation) -> None:
        """Begin with a call, which this process has made."""
        self.call_soon(lambda: self._begin(operation))

    def leave(self) -> None:
        """End well, once the calls that were made are over."""
        self.call_soon(self._say_bye)

    def forget(self) -> None:
        """Close the connections' sockets in a process that was forked from this one."""
        for connection in self._connections:
            connection.sock.close()

    # The loop.

    def throw(self, error: BaseException) -> None:
        """End with this error, unless the loop is over."""
        if self.error is None:
            raise error

    def run(self) -> None:
        """Run the loop until this process has left, or something fails: then each call ends with that error."""
        try:
            while not self._is_over():
                self._act()
                self._step(_LOOK_S)
        except BaseException as error:  # whoever waits for a call must hear of it
            self._fail(error)
        finally:
            self._end()

    @property
    def sent(self) -> dict[int, Sent]:
        """The bytes that the kernel has put on the wire, by neighbour; the payload is that of chunks alone. Headers and
        news of calls are in no forest, and outweigh chunks of few bytes, so they count as what the connection adds."""
        found = {}
        for node, sent in super().sent.items():
            chunk_bytes = self._by_node[node].payload_bytes - SIGNATURE_BYTES * self._told[node]
            found[node] = replace(sent, payload_bytes=max(0, chunk_bytes))  # after an error some may not have left
        return found

    def _act(self) -> None:
        while True:
            try:
                act = self._inbox.popleft()  # after the end, several threads may do this
            except IndexError:
                return
            act()

    def _is_over(self) -> bool:
        if self._leaving_s is None or self._ops or self._inbox or self._sending():
            return False
        return self._gone.issuperset(self._by_node) or time.monotonic() >= self._leaving_s

    def _missing(self, op: Operation) -> str:
        silent = [self._names[node] for node in op.shape.neighbours if node not in op.told]
        return f"{', '.join(silent)} did not make it" if silent else "all neighbours make it, too"

    def _called(self, key: Key, call: Call) -> str:
        return f"{called(key)}, {call.describe()},"

    def _fail(self, error: BaseException) -> None:
        self.error = error
        waiting, self._ops, self._summed = list(self._ops.values()), {}, {}
        for op in waiting:
            op.ending.done(error)
        self._say_why(error)

    def _say_why(self, error: BaseException) -> None:
        """Tell the neighbours why this process ends; else they would name it as the one that was lost."""
        problem, fix = (error.problem, error.fix) if isinstance(error, TestbedError) else (repr(error), None)
        text = f"{problem}\n{fix or ''}".encode()[:_MOST_TEXT_BYTES]
        end_s = time.monotonic() + _LAST_WORDS_S
        for connection in self._connections:
            connection.abandon()
            connection.push_raw(self._word((self._node, 0), _CONTROL | _ABORT, len(text)), memoryview(text))
        for connection in self._connections:
            with suppress(OSError, TestbedError):
                _flush_all(connection, end_s)
        self._drain(end_s)

    def _drain(self, end_s: float) -> None:
        """Read what others still send, until they end: if something is unread at the end, the kernel takes back what
        was sent last."""
        for connection in self._connections:
            with suppress(OSError):
                connection.sock.shutdown(SHUT_WR)
        unread = {connection.sock.fileno(): connection.sock for connection in self._connections}
        poll = select.poll()
        for descriptor in unread:
            poll.register(descriptor, select.POLLIN)
        while unread and (left_s := end_s - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(1000 * left_s):
                try:
                    ended = not unread[descriptor].recv(_SCRATCH_BYTES)
                except BlockingIOError:
                    continue
                except OSError:
                    ended = True
                if ended:
                    poll.unregister(descriptor)
                    del unread[descriptor]

    def _end(self) -> None:
        """Close all connections, and keep their counts."""
        if self.error is None:
            self.error = WorkerError(
                f"{self._name} has left its process group", fix="make calls before destroy_process_group()"
            )
        try:
            self.totals = {"wire_bytes": self.wire_bytes, "sent": self.sent}
        except (OSError, TestbedError):  # a connection that is reset counts no more
            self.totals = {"wire_bytes": self.wire_bytes, "sent": None}
        self._let_go()
        self._has_ended = True
        self._act()  # calls that were made meanwhile end, too

    def _let_go(self) -> None:
        """Close the loop, which does nothing more with the connections."""
        self.close()

    # Calls.

    def _begin(self, op: Operation) -> None:
        """
        Raises:
            WorkerError: a neighbour has made another call in its place.
        """
        if self.error is not None:
            op.ending.done(self.error)
            return
        self._ops[op.key] = op
        signature = op.shape.call.encode()
        for node in op.shape.neighbours:
            if node not in self._said_bye:  # else all that it had to say of this may have come
                self._push(node, self._word(op.key, _CONTROL | _BEGIN, SIGNATURE_BYTES), memoryview(signature), rank=-1)
                self._told[node] += 1
        for node, theirs in self._signatures.pop(op.key, {}).items():
            self._answered(op, node, theirs)
        for node in self._said_bye.intersection(op.shape.neighbours) - op.told:
            raise self._has_left(node, op)
        for node, phase, k in op.begin():
            self._send(op, node, phase, k)
        self._fill(op)
        op.ending.begun()
        self._note(op)
        self._take_early(op)

    def _fill(self, op: Operation) -> None:
        """Hand the kernel as much as it takes of a call that has just been made, so that links are busy meanwhile."""
        for node in op.shape.neighbours:
            connection = self._by_node.get(node)
            while connection is not None and connection.writable and connection.sending:
                self._flush(connection)

    def _answered(self, op: Operation, node: int, signature: bytes) -> None:
        """Note that a neighbour has made the call, too: chunks that wait for that may leave.

        Raises:
            WorkerError: it has made another one.
        """
        if signature != op.shape.call.encode() or node in op.told:
            raise self._disagree(op, node, signature)
        op.told.add(node)
        self._unanswered.setdefault(node, set()).discard(op.key)
        for phase, k in op.parked.pop(node, ()):
            self._send(op, node, phase, k)

    def _disagree(self, op: Operation, node: int, signature: bytes) -> WorkerError:
        try:
            theirs = Call.decode(signature).describe()
        except ValueError:
            theirs = "something that is no call"
        return WorkerError(
            f"{called(op.key)} is {op.shape.call.describe()} on {self._name}, and {theirs} on {self._names[node]}",
            fix="let all ranks of a group make the same calls, in the same order, with arrays of one size and type",
        )

    def _has_left(self, node: int, op: Operation) -> NeighbourError:
        return NeighbourError(
            f"{self._names[node]} has left its process group, and {self._name} makes "
            f"{self._called(op.key, op.shape.call)} with it",
            fix=f"see why the script on {self._names[node]} ended earlier: all ranks of a group make the same calls",
        )

    def _send(self, op: Operation, node: int, phase: int, k: int) -> None:
        """Queue a chunk, if the neighbour has made the call or need not have made it yet; else park it."""
        if node not in op.told and not self._may_be_early(op, node, k):
            op.parked[node].append((phase, k))
            return
        if node in self._said_bye:
            raise self._has_left(node, op)
        view = op.views[k]
        op.unsent += 1
        self._push(node, self._word(op.key, phase | k, len(view)), view, turn=op.turn[k], left=op.has_left)

    def _may_be_early(self, op: Operation, node: int, k: int) -> bool:
        if not op.shape.is_eager and (node in op.early or len(op.views[k]) > EARLY_BYTES):
            return False
        unanswered = self._unanswered.setdefault(node, set())
        if len(unanswered) >= MOST_EARLY and op.key not in unanswered:
            return False
        unanswered.add(op.key)
        op.early.add(node)
        return True

    def _take_early(self, op: Operation) -> None:
        """Take chunks that came before the call was made, as far as there is room."""
        left = []
        for node, word, payload in self._early.pop(op.key, []):
            k, phase = word & ~SUM, word & SUM
            if not self._fits(op, k, len(payload)):
                raise self._misfit(self._names[node], op.key, k)
            if not op.takes(k, self._is_queued):
                left.append((node, word, payload))
                continue
            if phase:
                op.views[k][:] = payload
            else:
                op.add(k, 0, np.frombuffer(payload, np.uint8).view(op.dtype))
            self._came(op, self._names[node], k, phase)
        if left:
            self._early[op.key] = left

    def _came(self, op: Operation, name: str, k: int, phase: int) -> None:
        try:
            for node, later, number in op.came(k, phase):
                self._send(op, node, later, number)
        except ValueError:
            raise self._misfit(name, op.key, k) from None
        self._note(op)

    def _note(self, op: Operation) -> None:
        """Note whether all chunks of a call have been here; then it is over as soon as they have left."""
        if op.is_summed:
            self._summed[op.key] = op

    def _finish(self, op: Operation) -> None:
        """End the call if the result is here and all that others need of it has left."""
        if op.unsent or any(op.parked.values()):
            return
        del self._ops[op.key], self._summed[op.key]
        if silent := set(op.shape.neighbours) - op.told:
            self._over[op.key] = op, silent
        op.finish()
        ending, op.ending = op.ending, OVER  # which has the script's tensor, and the call may be kept with its array
        op.is_free = not silent
        ending.done(None)

    # Messages.

    @staticmethod
    def _word(key: Key, word: int, length: int) -> bytes:
        """Make a header."""
        return _HEADER.pack(on_the_wire(key[0]), key[1], word, length)

    def _push(
        self,
        node: int,
        header: bytes,
        payload: memoryview,
        rank: int = 0,
        turn: Act | None = None,
        left: Act | None = None,
    ) -> None:
        connection = self._by_node.get(node)
        if connection is None:
            self._meet(node)
            self._absent[node].append((header, payload, rank, turn, left))
        else:
            connection.push_raw(header, payload, rank, turn, left)

    def _meet(self, node: int) -> None:
        """Connect with a node, if that has not begun yet."""
        if node not in self._by_node and node not in self._absent:
            self._absent[node] = []
            self._reach(node)

    def _reach(self, node: int) -> None:
        """Connect with a node that is no neighbour so far; :meth:`adopt` is called when that is done.

        Raises:
            WorkerError: it cannot be reached.
        """
        raise WorkerError(
            f"{self._name} has no connection with {self._names[node]}", fix="give the scheme such an edge"
        )

    def adopt(self, node: int, sock: socket) -> None:
        """Take over a connection with a node that was no neighbour."""
        if self.error is not None or node in self._by_node:
            sock.close()
            return
        connection = self._wire(node, sock)
        self._by_node[node] = connection
        self._connections = [*self._connections, connection]
        self._register(connection)
        for queued in self._absent.pop(node, []):
            connection.push_raw(*queued)
        if self._leaving_s is not None:
            self._say_left(connection, self._node)

    def _say_bye(self) -> None:
        if self.error is not None or self._leaving_s is not None:
            return
        self._leaving_s = time.monotonic() + _LEAVE_S
        for connection in self._connections:
            self._say_left(connection, self._node)

    def _say_left(self, connection: Connection, node: int) -> None:
        """Tell a neighbour that this node, or another one, leaves."""
        if not connection.closed:
            connection.push_raw(self._word((node, 0), _CONTROL | _BYE, 0), memoryview(b""))

    def _move(self) -> bool:
        moved = super()._move()
        if self._early:
            for key in [key for key in self._early if key in self._ops]:
                self._take_early(self._ops[key])
        if self._summed:
            for op in [*self._summed.values()]:
                self._finish(op)
        return moved

    def _flush(self, connection: Connection) -> int:
        try:
            return super()._flush(connection)
        except NeighbourError:
            if self._leaving_s is None or self._needs(connection.node):
                raise
            connection.forget()  # it has left before
            return 0

    def _needs(self, node: int) -> bool:
        """Whether a call waits for this node to make it. A node that has left has announced all calls that it has
        made."""
        return any(node in op.shape.neighbours and node not in op.told for op in self._ops.values())

    def _take(self, connection: Connection) -> bool:
        if connection.word is None:
            connection.word = connection.read_header()
            if connection.word is None:
                if connection.closed:
                    self._ended(connection)
                return False
            group, number, word, connection.left = _HEADER.unpack(connection.header)
            self._messages[connection] = (from_the_wire(group, connection.node), number), word
        key, word = self._messages[connection]
        if word & _CONTROL:
            return self._take_control(connection, key, word & ~_CONTROL)
        op = self._ops.get(key)
        if op is None or connection in self._into or (key in self._early and op.shape.is_eager):
            return self._keep(connection, key, word)
        if key in self._early:
            return False  # what came before it has no room yet
        return self._take_chunk(connection, op, word)

    def _ended(self, connection: Connection) -> None:
        """
        Raises:
            NeighbourError: a neighbour has ended that may not.
        """
        node = connection.node
        if node in self._said_bye:
            return
        has_calls = any(node in op.shape.neighbours for op in self._ops.values())
        if self._needs(node) if self._leaving_s is not None else node in self._near or has_calls:
            raise lost(connection, "its process ended")

    def _take_control(self, connection: Connection, key: Key, kind: int) -> bool:
        length = (connection.word or 0) & _LENGTH_MASK
        if kind not in (_BEGIN, _BYE, _ABORT) or length not in _CONTROL_BYTES[kind]:
            raise self._misfit(connection.name, key, kind)
        if not self._read_whole(connection, length):
            return False
        said = bytes(self._into.pop(connection))
        connection.word = None
        if kind == _ABORT:  # with the error with which the neighbour ended, be it its own or another's
            problem, _, fix = said.decode(errors="replace").partition("\n")
            raise LostError(problem, fix=fix, node=connection.node)
        if kind == _BYE:
            self._bye(connection, key)
            return True
        if key in self._ops:
            self._answered(self._ops[key], connection.node, said)
        elif key in self._over:
            op, silent = self._over[key]
            self._answered(op, connection.node, said)
            silent.discard(connection.node)
            if not silent:
                del self._over[key]
                op.is_free = True
        else:
            self._announced(connection, key, said)
        return True

    def _bye(self, connection: Connection, key: Key) -> None:
        """Note that a neighbour leaves, or that a server reports that another node does.

        Raises:
            NeighbourError: a call waits for it.
        """
        node = key[0]
        if node >= len(self._names):
            raise self._misfit(connection.name, key, _BYE)
        if node == connection.node:
            self._said_bye.add(node)
            for op in self._ops.values():
                if node in op.shape.neighbours and node not in op.told:
                    raise self._has_left(node, op)
        if node not in self._gone:
            self._gone.add(node)
            self._left(node)

    def _left(self, node: int) -> None:
        """React to a node that leaves, or has left."""

    def _announced(self, connection: Connection, key: Key, signature: bytes) -> None:
        """Note that a neighbour has made a call that this process has not made."""
        known = self._signatures.setdefault(key, {})
        if connection.node in known:
            raise self._misfit(connection.name, key, _BEGIN)
        known[connection.node] = signature

    def _read_whole(self, connection: Connection, length: int) -> bool:
        """Read more of a message into memory of its own, and say whether all is there."""
        if connection not in self._into:
            self._into[connection] = memoryview(bytearray(length))
        if connection.left:
            connection.read_payload(self._into[connection][-connection.left :])
        if connection.left and connection.closed:
            raise lost(connection, "it was closed within a message")
        return not connection.left

    def _keep(self, connection: Connection, key: Key, word: int) -> bool:
        """Keep a chunk of a call that this process has not made yet, or has no room for."""
        length = (connection.word or 0) & _LENGTH_MASK
        if connection not in self._into:
            others = sum(any(node == connection.node for node, _, _ in kept) for kept in self._early.values())
            if length > EARLY_BYTES or (others >= _MOST_KEPT and key not in self._early):
                raise self._misfit(connection.name, key, word & ~SUM)
        if not self._read_whole(connection, length):
            return False
        self._early.setdefault(key, []).append((connection.node, word, self._into.pop(connection)))
        connection.word = None
        return True

    def _fits(self, op: Operation, k: int, length: int) -> bool:
        return op.knows(k) and len(op.views[k]) == length

    def _take_chunk(self, connection: Connection, op: Operation, word: int) -> bool:
        k, phase = word & ~SUM, word & SUM
        if not connection.admitted:
            if not self._fits(op, k, connection.left):
                raise self._misfit(connection.name, op.key, k)
            if not op.takes(k, self._is_queued):
                return False
            connection.admitted = True
        came = self._copy(connection, op, k) if phase else self._add(connection, op, k)
        if connection.left == 0:
            connection.word, connection.admitted = None, False
            self._came(op, connection.name, k, phase)
            return True
        if connection.closed:
            raise lost(connection, "it was closed within a message")
        return came

    @staticmethod
    def _copy(connection: Connection, op: Operation, k: int) -> bool:
        """Read some of a sum; return whether anything came."""
        return connection.read_payload(op.views[k][-connection.left :]) > 0

    def _add(self, connection: Connection, op: Operation, k: int) -> bool:
        """Read some of a partial sum and add its whole numbers to ours; return whether anything came."""
        size = op.dtype.itemsize
        count, before_end, numbers = connection.read_terms(self._scratch_bytes, size)
        op.add(k, (len(op.views[k]) - before_end) // size, self._typed(op.dtype)[:numbers])
        return count > 0

    def _typed(self, dtype: np.dtype[Any]) -> Numbers:
        """View the scratch memory as numbers of a type."""
        found = self._scratches.get(dtype)
        if found is None:
            found = self._scratches[dtype] = self._scratch.view(dtype)
        return found

    def _misfit(self, name: str, key: Key, k: int) -> WorkerError:
        return WorkerError(
            f"{self._name} got chunk {k} of {called(key)} from {name}, and does not expect it",
            fix="let all ranks of a group make the same calls, with the same version of testbed",
        )

    def _awaited(self) -> str:
        return "; ".join(f"{self._called(op.key, op.shape.call)} {self._missing(op)}" for op in self._ops.values())

    def barrier(self, timeout_s: float) -> None:
        """Return at once: nobody waits for this process, because ranks have barriers of their own."""


def _flush_all(connection: Connection, end_s: float) -> None:
    """Hand all to the kernel that is queued, until then."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLOUT)
    while connection.sending and not connection.closed and (left_s := end_s - time.monotonic()) > 0:
        poll.poll(1000 * left_s)
        connection.flush()
