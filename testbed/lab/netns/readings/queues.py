"""Read what waits at every egress again and again while processes run, so that it costs next to nothing.

Problem: this runs on the cores that a trial needs, and a general reading of 36 queues takes 0.3 ms and more. Chosen: a
socket stays open in each namespace, the requests are packed once, and of an answer only the few numbers are decoded
that are needed, at the places where a first answer of the same form had them. That is 0.1 ms. The process that owns the
namespaces does it, between requests. A thread would not do: workers are forked from that process. Rejected: a dump of
each namespace, which lists shapers and loopbacks, too.

Readings are summed up in windows of time, so that a long trial leaves no more than a short one. A window is a number of
readings. When there are too many windows, or too many rows in them, each two become one.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from testbed.base.errors import LabError
from testbed.lab.measurements import Queues, Waited
from testbed.lab.netns.kernel_interface import shaping
from testbed.lab.netns.kernel_interface.netlink import (
    ANSWERS_IN_FLIGHT,
    HEADER,
    LARGEST_ANSWER_BYTES,
    RouteSocket,
    packed,
    places,
)
from testbed.lab.netns.kernel_interface.shaping import MARKED, TCA_RED_PARMS
from testbed.lab.netns.network.blueprint import NodePlan
from testbed.lab.netns.network.build import SPARE_FILES, BuiltNetwork, allow_files

MOST_WINDOWS = 2000
"""The most windows of a trial: more than a screen has pixels across."""
MOST_ROWS = 2**17
"""The most rows of a trial, one for each window and link at which something waited: a file of 1 to 2 MB."""

Found = tuple[int, int, bool, int, int]
"""Reading of one egress: the directed link, bytes that wait, whether the queue is full, and drops and marks since the
last reading."""
_Row = tuple[int, int, int, int, int]
"""Sums of one link in one window: the most bytes, their sum over the readings, readings with a full queue, drops,
marks."""
LEAST_S, MOST_S = 0.02, 2.0
"""Bounds of the time between two readings (s)."""
PERIODS = 100
"""The time between readings, as a multiple of the CPU time of one: readings take 1 % of a core. 36 directed links are
read every 20 ms on an idle machine, where that takes 0.1 ms, and every 35 ms where all cores are busy; 1,000 every
0.4 s and more."""
FULL = 0.9
"""Share of its limit from which a queue is called full."""
_COUNTS = struct.Struct("=III")  # the start of struct gnet_stats_queue: packets, bytes, drops
_LIMIT = struct.Struct("=I")
_MARKS = struct.Struct("=I")
_NETEM_LIMIT = 4
"""Offset of the limit in struct tc_netem_qopt."""


class Windows:
    """Windows of readings of all links, in their order. A link that a reading does not find has an empty queue without
    drops."""

    def __init__(self, most_windows: int = MOST_WINDOWS, most_rows: int = MOST_ROWS) -> None:
        """Prepare windows. ``most_windows`` is an even number."""
        self._most_windows, self._most_rows = most_windows, most_rows
        self._size = 1  # readings in a window
        self._starts_s: list[float] = []
        self._rows: list[dict[int, _Row]] = []
        self._row_count = 0
        self.readings = 0

    def add(self, at_s: float, found: Iterable[Found]) -> None:
        """Add a reading, later than all before it."""
        if self.readings % self._size == 0:
            if len(self._rows) == self._most_windows:
                self._halve()
            self._starts_s.append(at_s)
            self._rows.append({})
        self.readings += 1
        rows = self._rows[-1]
        before = len(rows)
        for link, waiting, is_full, drops, marks in found:
            one = waiting, waiting, int(is_full), drops, marks
            rows[link] = _together(rows[link], one) if link in rows else one
        self._row_count += len(rows) - before
        if self._row_count > self._most_rows and len(self._rows) > 1 and self.readings % (2 * self._size) == 0:
            self._halve()

    def all(self, end_s: float) -> list[Waited]:
        """Make all rows, by time and link; the last window ends at ``end_s``."""
        ends = [*self._starts_s[1:], end_s]
        found = []
        for i, (start_s, window_end_s, rows) in enumerate(zip(self._starts_s, ends, self._rows, strict=True)):
            count = min(self._size, self.readings - i * self._size)
            found += [
                Waited(link, start_s, window_end_s - start_s, most, total / count, full / count, drops, marks)
                for link, (most, total, full, drops, marks) in sorted(rows.items())
            ]
        return found

    def _halve(self) -> None:
        """Halve the number of windows: make one of each two; all are whole, and their number is even."""
        self._starts_s = self._starts_s[::2]
        self._rows = [_merged(*two) for two in list(pairwise(self._rows))[::2]]
        self._size *= 2
        self._row_count = sum(map(len, self._rows))


def _merged(first: dict[int, _Row], second: dict[int, _Row]) -> dict[int, _Row]:
    both = first.keys() & second.keys()
    return first | second | {link: _together(first[link], second[link]) for link in both}


def _together(one: _Row, other: _Row) -> _Row:
    return max(one[0], other[0]), one[1] + other[1], one[2] + other[2], one[3] + other[3], one[4] + other[4]


@dataclass(frozen=True, slots=True)
class Form:
    """Offsets of the numbers in answers of one form; ``counts_packets`` if the limit is one of packets, and ``marks``
    is None for a queue that does not mark."""

    counts: int
    limit: int
    counts_packets: bool
    marks: int | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """Requests of one namespace, and the directed links that their answers are about."""

    netlink: RouteSocket
    packed: bytes
    links: tuple[int, ...]


def form_of(answer: bytes | bytearray, end: int) -> Form:
    """Find the numbers in an answer about a queue, which begins with its header and ends at ``end``."""
    outer = places(answer, HEADER.size + shaping.TCMSG.size, end)
    inner = places(answer, *outer[shaping.TCA_STATS2])
    kind, limit, marks = answer[slice(*outer[shaping.TCA_KIND])], outer[shaping.TCA_OPTIONS][0], None
    if kind.startswith(b"netem"):
        limit += _NETEM_LIMIT
    elif kind.startswith(b"red"):  # whose limit is in an attribute of its own, at the beginning
        limit = places(answer, *outer[shaping.TCA_OPTIONS])[TCA_RED_PARMS][0]
        marks = inner[shaping.TCA_STATS_APP][0] + MARKED
    return Form(inner[shaping.TCA_STATS_QUEUE][0], limit, kind.startswith(b"netem"), marks)


def period_s(cost_s: float) -> float:
    """Seconds between readings that take so much CPU time each."""
    return min(MOST_S, max(LEAST_S, PERIODS * cost_s))


class Sampler:
    """Sampler that reads the queues of a network that is up and shaped, whenever it is time (:meth:`sample`). A failure
    ends the readings, and :meth:`close` tells of it."""

    def __init__(self, network: BuiltNetwork) -> None:
        self._sockets: list[RouteSocket] = []
        self._asked: list[_Asked] = []
        self._forms: dict[tuple[int, bytes], Form] = {}
        self._lost: dict[int, tuple[int, int]] = {}
        self._windows = Windows()
        self._buffer = bytearray(LARGEST_ANSWER_BYTES)
        self._cost_s = 0.0
        self._problem: str | None = None
        self._next_s = time.monotonic()
        try:
            allow_files(2 * len(network.blueprint.own_nodes) + SPARE_FILES)
            network.on_every_node(lambda node, _: self._add(network, node))
        except (LabError, OSError) as error:
            self._fail(error)

    def _add(self, network: BuiltNetwork, node: NodePlan) -> None:
        if not node.ports:
            return
        netlink = RouteSocket()
        self._sockets.append(netlink)
        for start in range(0, len(node.ports), ANSWERS_IN_FLIGHT):
            ports = node.ports[start : start + ANSWERS_IN_FLIGHT]
            asked = [shaping.ask_leaf(port.index, network.shape(port).class_handle) for port in ports]
            self._asked.append(_Asked(netlink, packed(asked), tuple(port.directed_link for port in ports)))

    def sample(self) -> float | None:
        """Read all queues if it is time; return in how many seconds it is time again, None for never."""
        if self._problem is not None:
            return None
        now_s = time.monotonic()
        if now_s >= self._next_s:
            began_s = time.thread_time()
            try:
                self._windows.add(now_s, [one for asked in self._asked for one in self._answers(asked)])
            except OSError as error:
                self._fail(error)
                return None
            self._cost_s += time.thread_time() - began_s
            self._next_s = now_s + period_s(self._cost_s / self._windows.readings)
        return max(0.0, self._next_s - time.monotonic())

    def close(self) -> Queues:
        """Stop reading; return what was read."""
        self._let_go()
        windows = self._windows
        return Queues(tuple(windows.all(time.monotonic())), windows.readings, self._cost_s, self._problem)

    def _answers(self, asked: _Asked) -> Iterator[Found]:
        """Yield queues in which something waits, or that dropped or marked something."""
        buffer, begins, known = self._buffer, HEADER.size + shaping.TCMSG.size, self._lost
        lengths = asked.netlink.ask_packed(asked.packed, len(asked.links), buffer)
        for link, length in zip(asked.links, lengths, strict=True):
            key = length, bytes(buffer[begins : begins + 12])  # the kind, bfifo or netem, as an attribute
            form = self._forms.get(key) or self._forms.setdefault(key, form_of(buffer, length))
            packets, waiting, drops = _COUNTS.unpack_from(buffer, form.counts)
            now = drops, 0 if form.marks is None else _MARKS.unpack_from(buffer, form.marks)[0]
            before = known.setdefault(link, now)
            if not waiting and now == before:
                continue
            known[link] = now
            # Where another queue has taken the place of one, it counts from 0 on.
            dropped, marked = (new - old if new >= old else new for new, old in zip(now, before, strict=True))
            (limit,) = _LIMIT.unpack_from(buffer, form.limit)
            yield link, waiting, (packets if form.counts_packets else waiting) >= FULL * limit, dropped, marked

    def _fail(self, error: Exception) -> None:
        self._problem = str(error)
        self._let_go()

    def _let_go(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.close()
        self._sockets, self._asked = [], []
