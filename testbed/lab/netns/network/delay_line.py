"""Delays, jitter, loss and reordering where the kernel has no netem: one process that says when each packet goes on.

A netfilter rule stops every packet that arrives at a delayed interface (mangle PREROUTING, so behind the shaper) in a
queue of its own (:mod:`nfqueue`). The kernel keeps the packet; this process learns its id and when it arrived, decides
when it is due, and then gives the verdict. Its inner loop is compiled (``delay_line.c``); where chance has a say, the
link's :class:`Lane` decides. What made it exact and cheap:

- A packet is due from the moment the *kernel* saw it, so it does not matter how late this process reads of it, as long
  as that is before it is due. Only a late verdict is an error; a timer set a little early and real-time priority, where
  the user may have it, keep that to some ten microseconds.
- A queue keeps its order, so one verdict lets all go that are due (a batch), and the heap holds one entry a link.
- A large packet that TCP has left to be cut later (GSO) stays whole unless one of its packets is to be lost or to go
  ahead. Only then it is moved to a second queue of the link, which cuts it, and its packets are decided about one by
  one. To cut all of them took 13 us of a core for each packet of the wire, twice of what two cores have at 100 Mbit/s
  on four hosts.

The rule has no ``--queue-bypass``: were this process to end, links would be dead, and not undelayed without anyone
noticing. A program that asks the kernel when a packet arrived (SO_TIMESTAMP; ``ping`` without ``-U`` does) is told when
it came to the host's interface, which is before the last link's delay.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import math
import os
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from testbed.base import compiled
from testbed.base.errors import LabError
from testbed.lab.base import Impairment
from testbed.lab.netns.channel import Channel, ChannelClosedError
from testbed.lab.netns.kernel_interface import kernel
from testbed.lab.netns.kernel_interface.nfqueue import QueueSocket, stamping
from testbed.lab.netns.kernel_interface.sysctls import SEGMENT_HEADERS_BYTES
from testbed.lab.requests import Requests, request

LOST, AHEAD, CUT = -1, -2, -3
"""Decisions in place of a time: never; at once, ahead of those that wait; and not before it is cut, for some of it is
chosen."""

NEVER = 1e15
"""Number of packets that is more than any link carries."""
LIBRARY = "testbed.lab.netns.network._delay_line"
VERSION = 1
"""Version of the compiled library; ``delay_line.c`` has the same."""
_DECIDE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_FUNCTIONS: Sequence[compiled.Function] = (
    ("delay_line_new", ctypes.c_void_p, [ctypes.c_void_p, _DECIDE, ctypes.c_int, ctypes.c_int64]),
    ("delay_line_open", ctypes.c_int, [ctypes.c_void_p, *[ctypes.c_int, ctypes.c_uint16] * 2]),
    ("delay_line_set", None, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_bool, ctypes.c_int64]),
    ("delay_line_serve", ctypes.c_int, [ctypes.c_void_p]),
)


class Chance:
    """Chance that chooses a share of packets, each by itself, by drawing how many pass until the next one that is
    chosen: a large packet of which none is chosen costs no more than a small one."""

    def __init__(self, seed: str) -> None:
        self._draw, self._share = random.Random(seed), 0.0
        self.left = math.inf
        """Number of packets that pass before the next one that is chosen."""

    def set(self, share: float) -> None:
        """Choose this share from now on."""
        self._share = share
        self.left = self._gap()

    def chooses(self) -> bool:
        """Whether the next packet is chosen."""
        if self.left:
            self.left -= 1
            return False
        self.left = self._gap()
        return True

    def _gap(self) -> float:
        if self._share in (0, 1):
            return 0 if self._share else math.inf
        return math.floor(min(NEVER, math.log(1 - self._draw.random()) / math.log1p(-self._share)))


class Lane:
    """Lane of packets in the order in which they leave the shaper; the same seed makes the same decisions about them.

    Order is kept: a packet with little jitter waits for the one before it, as it would in a cable. Only those that
    ``reorder`` chooses go ahead, and wait for nobody (netem's rule, too).
    """

    def __init__(self, seed: int, impairment: Impairment) -> None:
        self._draw = random.Random(seed)
        self._loss, self._reorder = Chance(f"{seed} loss"), Chance(f"{seed} reorder")
        self._last_ns = 0
        self.impairment = impairment

    @property
    def impairment(self) -> Impairment:
        """Impairment that is asked of the link; may be set at any time, and holds for the packets that come from then
        on."""
        return self._impairment

    @impairment.setter
    def impairment(self, wanted: Impairment) -> None:
        self._impairment = wanted
        self.delay_ns, self._jitter_ns = round(wanted.delay_s * 1e9), wanted.jitter_s * 1e9
        self._loss.set(wanted.loss)
        self._reorder.set(wanted.reorder)

    @property
    def has_chance(self) -> bool:
        """Whether chance has a say; without it, each packet is late by ``delay_ns`` alone, and never cut."""
        return bool(self._jitter_ns) or self._impairment.every_packet

    def due_ns(self, arrived_ns: int, packets: int = 1) -> int:
        """Decide when a packet is due that has arrived at ``arrived_ns``, or :data:`LOST`, or :data:`AHEAD`.

        A large one, of as many ``packets`` of the wire, is due as a whole if none of them is chosen to be lost or to go
        ahead. If one is, it is :data:`CUT`, and nothing is decided before its packets come one by one.
        """
        if min(self._loss.left, self._reorder.left) >= packets:
            self._loss.left -= packets
            self._reorder.left -= packets
        elif packets > 1:
            return CUT
        elif self._loss.chooses():
            return LOST
        elif self._reorder.chooses():
            return AHEAD
        due_ns = arrived_ns + self.delay_ns
        if self._jitter_ns:
            due_ns = max(arrived_ns, due_ns + int(self._draw.gauss(0.0, self._jitter_ns)))
        self._last_ns = max(due_ns, self._last_ns)
        return self._last_ns


class _Seen(ctypes.Structure):
    """``struct seen`` of ``delay_line.c``."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("packets", "lost", "latest_ns", "refused_link")),
        ("late", ctypes.c_int64 * 64),
    )
    packets: int
    lost: int
    latest_ns: int
    refused_link: int
    late: Sequence[int]


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


class Track(NamedTuple):
    """A link in the line: what it is told to do, and its queues."""

    directed_link: int
    lane: Lane
    whole: QueueSocket
    cutting: QueueSocket


class DelayLine:
    """State of the process, and what can be asked of it (:data:`REQUESTS`); :meth:`serve` is its whole life."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._stamping = stamping()
        self._tracks: list[Track] = []  # by their numbers in the compiled line
        self._by_link: dict[int, int] = {}
        self._seen = _Seen(refused_link=-1)
        self._decide = _DECIDE(lambda track, arrived_ns, packets: self._tracks[track].lane.due_ns(arrived_ns, packets))
        self._library = library()
        self._line = self._library.delay_line_new(
            ctypes.byref(self._seen), self._decide, channel.fileno(), SEGMENT_HEADERS_BYTES
        )
        if not self._line:
            raise LabError("the kernel refuses the delay line a timer or memory")

    def serve(self) -> None:
        """Serve packets and requests until the channel ends."""
        gc.disable()  # nothing here makes cycles, and a collection would take longer than packets may be late
        with suppress(ChannelClosedError):
            while True:
                code = self._library.delay_line_serve(self._line)
                if not code:
                    self._answer()
                elif code != errno.EINTR:
                    raise self._refused(code)

    def _refused(self, code: int) -> LabError:
        if self._seen.refused_link < 0:
            return LabError(f"the delay line cannot go on: {os.strerror(code)}")
        link = self._tracks[self._seen.refused_link].directed_link
        return LabError(f"a verdict for directed link {link} was refused: {os.strerror(code)}")

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
            if order.directed_link not in self._by_link:
                self._open(order)
            number = self._by_link[order.directed_link]
            track, wanted = self._tracks[number], order.impairment
            track.whole.ask_for_lengths(wanted.every_packet)
            track.lane.impairment = wanted
            payload_bytes = order.mtu_bytes - SEGMENT_HEADERS_BYTES if wanted.every_packet else 0
            self._library.delay_line_set(self._line, number, track.lane.delay_ns, track.lane.has_chance, payload_bytes)

    def _open(self, order: Order) -> None:
        with kernel.inside(order.namespace, self._home):
            queues = QueueSocket(order.queue), QueueSocket(cutting(order.queue), cuts=True)
        told = [value for queue in queues for value in (queue.socket.fileno(), queue.number)]
        code = self._library.delay_line_open(self._line, *told)
        if code:
            raise OSError(code, os.strerror(code))
        self._by_link[order.directed_link] = len(self._tracks)
        self._tracks.append(Track(order.directed_link, Lane(order.seed, order.impairment), *queues))

    @request
    def report(self) -> dict[str, Any]:
        """Report what each link is told to do, what became of packets, how late verdicts were, and CPU time of the
        process."""
        return {
            "links": {track.directed_link: track.lane.impairment for track in self._tracks},
            "packets": self._seen.packets,
            "lost": self._seen.lost,
            "late_median_s": late_s(self._seen.late, 0.5),
            "late_p99_s": late_s(self._seen.late, 0.99),
            "latest_s": self._seen.latest_ns / 1e9,
            "cpu_s": time.process_time(),
            "real_time": os.sched_getscheduler(0) == os.SCHED_FIFO,
        }


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


@cache
def library() -> ctypes.CDLL:
    """Load the compiled loop. Raises MissingToolError: there is none for this machine, or it is of another version."""
    return compiled.require(LIBRARY, VERSION, _FUNCTIONS, "the compiled loop of the delay line")


def main(channel: Channel) -> None:
    """Run the delay line."""
    with suppress(PermissionError):  # in a user namespace; the description says which it is
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    DelayLine(channel).serve()
