"""Delays, jitter, loss and reordering where the kernel has no netem: one process that says when each packet goes on.

A netfilter rule stops every packet that arrives at a delayed interface (mangle PREROUTING, so behind the shaper) in a
queue of its own (:mod:`nfqueue`). The kernel keeps the packet; this process learns its id and when it arrived, has the
link's :class:`Lane` say when it is due, and then gives the verdict. What made it exact, and cheap enough in Python:

- A packet is due from the moment the *kernel* saw it, so it does not matter how late this process reads of it, as long
  as that is before it is due. Only a late verdict is an error; a timer set a little early and real-time priority, where
  the user may have it, keep that to some ten microseconds.
- A queue keeps its order, so one verdict lets all go that are due (``VERDICT_BATCH``), and the heap holds one entry a
  link.
- A large packet that TCP has left to be cut later (GSO) stays whole unless one of its packets is to be lost or to go
  ahead. Only then it is moved to a second queue of the link, which cuts it, and its packets are decided about one by
  one. To cut all of them took 13 us of a core for each packet of the wire, twice of what two cores have at 100 Mbit/s
  on four hosts.

The rule has no ``--queue-bypass``: were this process to end, links would be dead, and not undelayed without anyone
noticing. A program that asks the kernel when a packet arrived (SO_TIMESTAMP; ``ping`` without ``-U`` does) is told when
it came to the host's interface, which is before the last link's delay.
"""

from __future__ import annotations

import errno
import gc
import heapq
import os
import select
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from testbed.base.errors import LabError
from testbed.lab.base import Impairment
from testbed.lab.netns.channel import Channel, ChannelClosedError
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.kernel_interface.netlink import HEADER, NLMSG_ERROR
from testbed.lab.netns.kernel_interface.nfqueue import (
    ID,
    ID_AT,
    LENGTH,
    LENGTH_HEADER,
    STAMP,
    STAMP_HEADER,
    QueueSocket,
    attribute_at,
    error_code,
    stamping,
)
from testbed.lab.netns.kernel_interface.sysctls import SEGMENT_HEADERS_BYTES
from testbed.lab.netns.network.lane import AHEAD, CUT, LOST, Lane
from testbed.lab.requests import Requests, request

EARLY_NS = 10_000
"""Nanoseconds within which a packet that is due goes now: about what the way from here to the packet takes."""
MARGIN_NS, MOST_LEAD_NS = 20_000, 100_000
"""Nanoseconds of the timer's margin, and the largest lead. The timer is set earlier by as much as it was late of late,
and this margin, up to this lead; the rest is waited for awake. An idle core of a virtual machine takes 30 to 100 us to
wake up."""
READS, ALL = 64, 1 << 16
"""Messages to read from one queue before looking at others and at what is due; and more than come of one packet."""
STALE_NS = 10**9
"""Nanoseconds beyond which an arrival that seems so long ago is a stepped clock's doing."""


@dataclass(frozen=True)
class Order:
    """Part of a request about one link: where its packets arrive, the number of their queue, what to do to them, the
    seed, and how long they are at most."""

    directed_link: int
    namespace: int
    queue: int
    impairment: Impairment
    seed: int
    mtu_bytes: int


def cutting(queue: int) -> int:
    """The number of the queue that cuts a link's large packets; links' own are below."""
    return queue | 1 << 15


@dataclass
class Track:
    """A link in the line: its queues, its rule, what waits (due, queue, id), and what was seen."""

    directed_link: int
    queue: QueueSocket
    cutting: QueueSocket
    mtu_bytes: int
    lane: Lane
    waiting: deque[tuple[int, QueueSocket, int]]
    packets: int = 0
    lost: int = 0


class DelayLine:
    """State of the process, and what can be asked of it (:data:`REQUESTS`); :meth:`serve` is its whole life."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._timer = kernel.Timer()
        self._armed_ns = self._armed_for_ns = 0
        self._lead_ns = MARGIN_NS
        self._epoll = select.epoll()
        self._epoll.register(self._timer.fileno(), select.EPOLLIN | select.EPOLLET)  # nobody reads it
        self._epoll.register(channel.fileno(), select.EPOLLIN)
        self._stamping = stamping()
        self._tracks: dict[int, Track] = {}  # by directed link
        self._by_file: dict[int, tuple[Track, QueueSocket]] = {}
        self._heap: list[tuple[int, int]] = []  # (when the first that waits is due, directed link)
        self._buffer = bytearray(4096)
        self._stamp_at = self._length_at = 0
        self._latest_ns = 0
        self._late: list[int] = [0] * 64  # verdicts by the bit length of their lateness in ns

    def serve(self) -> None:
        """Serve packets and requests until the channel ends."""
        gc.disable()  # nothing here makes cycles, and a collection would take longer than packets may be late
        timer, channel = self._timer.fileno(), self._channel.fileno()
        with suppress(ChannelClosedError):
            while True:
                for fd, _ in self._epoll.poll():
                    if fd == channel:
                        self._answer()
                    elif fd == timer:
                        wanted_ns = time.monotonic_ns() - self._armed_ns + MARGIN_NS
                        self._lead_ns += (min(wanted_ns, MOST_LEAD_NS) - self._lead_ns) // 16
                        self._armed_for_ns = 0
                    else:
                        self._read(*self._by_file[fd])
                self._release()

    def _answer(self) -> None:
        (name, named), files = self._channel.receive()
        answer: object = None
        try:
            answer = REQUESTS.find(self, name, named=named)()
        except OSError as error:
            answer = LabError(f"the delay line cannot {name}: {error}")
        except LabError as error:
            answer = error
        for fd in files:
            os.close(fd)
        self._channel.send(answer)

    @request
    def impair(self, orders: Sequence[Order]) -> None:
        """Impair links so from now on."""
        for order in orders:
            track = self._tracks.get(order.directed_link) or self._open(order)
            track.queue.ask_for_lengths(order.impairment.every_packet)
            track.lane.impairment = order.impairment

    def _open(self, order: Order) -> Track:
        kernel.setns(order.namespace, kernel.CLONE_NEWNET)
        try:
            whole, cut = QueueSocket(order.queue), QueueSocket(cutting(order.queue), cuts=True)
        finally:
            kernel.setns(self._home, kernel.CLONE_NEWNET)
        lane = Lane(order.seed, order.impairment)
        track = self._tracks[order.directed_link] = Track(
            order.directed_link, whole, cut, order.mtu_bytes, lane, deque()
        )
        for queue in (whole, cut):
            self._by_file[queue.socket.fileno()] = track, queue
            self._epoll.register(queue.socket.fileno(), select.EPOLLIN)
        return track

    @request
    def report(self) -> dict[str, Any]:
        """Report what each link is told to do, what became of packets, how late verdicts were, and CPU time of the
        process."""
        return {
            "links": {link: track.lane.impairment for link, track in self._tracks.items()},
            "packets": sum(track.packets for track in self._tracks.values()),
            "lost": sum(track.lost for track in self._tracks.values()),
            "late_median_s": late_s(self._late, 0.5),
            "late_p99_s": late_s(self._late, 0.99),
            "latest_s": self._latest_ns / 1e9,
            "cpu_s": time.process_time(),
            "real_time": os.sched_getscheduler(0) == os.SCHED_FIFO,
        }

    def _read(self, track: Track, queue: QueueSocket) -> None:
        """Note what has come to one queue, and when it is due."""
        was_empty = not track.waiting
        self._take_in(track, queue, READS)
        if was_empty and track.waiting:
            heapq.heappush(self._heap, (track.waiting[0][0], track.directed_link))

    def _take_in(self, track: Track, queue: QueueSocket, most: int) -> None:
        buffer, receive = self._buffer, queue.socket.recv_into
        offset_ns = time.time_ns() - time.monotonic_ns()
        with suppress(BlockingIOError):
            for _ in range(most):
                length = receive(buffer)
                if HEADER.unpack_from(buffer)[1] == NLMSG_ERROR:
                    _check(track, error_code(bytes(buffer[:length])))
                    continue
                packets = self._packets(track, length) if queue is track.queue else 1
                self._arrived(
                    track, queue, ID.unpack_from(buffer, ID_AT)[0], packets, self._arrival_ns(length, offset_ns)
                )

    def _arrived(self, track: Track, queue: QueueSocket, packet: int, packets: int, arrived_ns: int) -> None:
        due_ns = track.lane.due_ns(arrived_ns, packets)
        if due_ns == CUT:
            queue.move(packet, cutting(queue.number))
            self._take_in(track, track.cutting, ALL)  # at once: those that came after it must not overtake it
            return
        track.packets += packets
        if due_ns >= 0:
            track.waiting.append((due_ns, queue, packet))
        elif due_ns == AHEAD:
            queue.accept(packet)
        else:
            assert due_ns == LOST
            track.lost += 1
            queue.drop(packet)

    def _packets(self, track: Track, length: int) -> int:
        """Number of packets of the wire that the packet of the message in the buffer makes; 1 where the length was not
        asked."""
        if not track.lane.impairment.every_packet:
            return 1
        start = self._length_at
        if self._buffer[start : start + 4] != LENGTH_HEADER:
            start = self._length_at = attribute_at(bytes(self._buffer[:length]), length, LENGTH_HEADER)
            if not start:
                return 1
        payload = int(LENGTH.unpack_from(self._buffer, start + 4)[0]) - SEGMENT_HEADERS_BYTES
        return max(1, -(-payload // (track.mtu_bytes - SEGMENT_HEADERS_BYTES)))

    def _arrival_ns(self, length: int, offset_ns: int) -> int:
        """Moment at which the packet of the message in the buffer arrived, on the monotonic clock (ns)."""
        start, now_ns = self._stamp_at, time.monotonic_ns()
        if self._buffer[start : start + 4] != STAMP_HEADER:
            start = self._stamp_at = attribute_at(bytes(self._buffer[:length]), length, STAMP_HEADER)
            if not start:
                return now_ns
        seconds, microseconds = STAMP.unpack_from(self._buffer, start + 4)
        arrived_ns: int = seconds * 10**9 + microseconds * 1000 - offset_ns
        return arrived_ns if now_ns - STALE_NS < arrived_ns <= now_ns else now_ns

    def _release(self) -> None:
        """Let packets go that are due, and set the timer for what is due next."""
        heap = self._heap
        while heap:
            first_ns, link = heap[0]
            wait_ns = first_ns - time.monotonic_ns()
            if wait_ns <= EARLY_NS:
                self._let_go(link, first_ns - wait_ns)
            elif wait_ns > self._lead_ns:
                break
        if heap and heap[0][0] != self._armed_for_ns:
            self._armed_for_ns = heap[0][0]
            self._armed_ns = self._armed_for_ns - self._lead_ns
            self._timer.set(self._armed_ns)

    def _let_go(self, link: int, now_ns: int) -> None:
        """Give the verdict for all packets that are due of the link whose first packet is due first."""
        track = self._tracks[link]
        waiting = track.waiting
        late_ns = max(0, now_ns - waiting[0][0])
        _, queue, packet = waiting.popleft()
        while waiting and waiting[0][0] <= now_ns + EARLY_NS:
            if waiting[0][1] is not queue:
                queue.accept_up_to(packet)
            _, queue, packet = waiting.popleft()
        queue.accept_up_to(packet)
        if waiting:
            heapq.heapreplace(self._heap, (waiting[0][0], link))
        else:
            heapq.heappop(self._heap)
        self._late[late_ns.bit_length()] += 1
        self._latest_ns = max(self._latest_ns, late_ns)


REQUESTS = Requests(DelayLine, trusted=True)


def late_s(counted: Sequence[int], share: float) -> float:
    """The lateness (s) that this share of verdicts stayed within: 0, or the next power of two of nanoseconds.

    ``counted`` has the number of verdicts by the bit length of their lateness in nanoseconds.
    """
    within, wanted = 0, share * sum(counted)
    for bits, count in enumerate(counted):
        within += count
        if within >= wanted:
            return (1 << bits) / 1e9 if bits else 0.0
    return 0.0


def _check(track: Track, code: int) -> None:
    """Raise an error for a refused verdict, unless the packet's interface has gone: for those a verdict may come too
    late; nothing else may be refused."""
    if code not in (0, errno.ENOENT):
        raise LabError(f"a verdict for directed link {track.directed_link} was refused: {os.strerror(code)}")


def main(channel: Channel) -> None:
    """Run the delay line."""
    with suppress(PermissionError):  # in a user namespace; the description says which it is
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    DelayLine(channel).serve()
