"""Notes and floats on their way in simulated time, as :class:`.exchange.Exchange` sends and receives them.

Floats are sent in pieces: no faster than the scheduler says, and so that their receiver sees when the end is near.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

from testbed.workloads.kinds.fabric.processes.messages import NEAR_S, Give, Note, Pass, Send, SendSums, encode
from testbed.workloads.kinds.fabric.processes.moments import Clock, Coming
from testbed.workloads.play.wires import Call, Wires, nothing
from testbed.workloads.sync.connection import HEADER_BYTES

FIRST, LAST = 24, 12
"""Most pieces of the first part of floats, and of the last, whose end is to be seen coming."""
FIRST_BYTES, LAST_BYTES = 2**16, 1500
"""Least bytes of such a piece: a segment as links send it at most, and a packet."""
Nears = Callable[[float], None]
"""Tells that the rest of floats takes so long (s)."""


class Transfers:
    """Notes and floats between processes, and what each knows of the scheduler's clock."""

    def __init__(self, wires: Wires) -> None:
        self._wires = wires
        self._clocks: dict[int, Clock] = defaultdict(Clock)
        self._free_s: dict[tuple[int, int], float] = defaultdict(float)
        """When the last piece that was to leave on a connection is handed over."""

    def note(self, source: int, target: int, note: Note, came: Call) -> None:
        """Send a note; at once if it stays on its host."""
        if source == target:
            self._wires.soon(came)
            return
        self._send(source, target, len(encode(note)), came)

    def floats(
        self, way: tuple[int, int], note: Note, count_bytes: int, rate_bps: float, nears: Nears, came: Call
    ) -> None:
        """Send a note from one node to another, and the floats that it announces, no faster than ``rate_bps``; 0 for
        any rate."""
        source, target = way
        reception = _Reception(self._wires, count_bytes, nears, came)
        begin_s = max(self._wires.now_s, self._free_s[way])
        self._at(begin_s, partial(self._send, source, target, len(encode(note)), reception.begin))
        for number, piece in enumerate(_pieces(count_bytes, rate_bps)):
            overhead = HEADER_BYTES if number == 0 else 0
            self._at(begin_s, partial(self._hand_over, way, piece + overhead, partial(reception.take, piece)))
            begin_s += piece * 8 / rate_bps if rate_bps else 0.0
        self._free_s[way] = begin_s

    def begin_s(self, node: int, note: Send | SendSums | Pass | Give) -> float:
        """Return when a note that has just come was said, as :meth:`.exchange.Exchange._begin_s` does."""
        assert note.said_s is not None  # the scheduler says it
        clock = self._clocks[node]
        clock.heard(note.said_s, self._wires.now_s)
        return clock.here_s(note.said_s)

    def told_s(self, node: int) -> float | None:
        """Return this moment on the scheduler's clock, as far as a node knows it."""
        return self._clocks[node].told_s(self._wires.now_s)

    def _at(self, moment_s: float, call: Call) -> None:
        if moment_s <= self._wires.now_s:
            call()
        else:
            self._wires.at(moment_s, call)

    def _send(self, source: int, target: int, note_bytes: int, came: Call) -> None:
        self._wires.send(source, target, HEADER_BYTES + note_bytes, nothing, came)

    def _hand_over(self, way: tuple[int, int], count_bytes: float, came: Call) -> None:
        self._wires.send(*way, count_bytes, nothing, came)


class _Reception:
    """Floats that come."""

    def __init__(self, wires: Wires, count_bytes: int, nears: Nears, came: Call) -> None:
        self._wires, self._count_bytes, self._nears, self._came = wires, count_bytes, nears, came
        self._left = count_bytes

    def begin(self) -> None:
        self._coming = Coming(self._count_bytes, self._wires.now_s)

    def take(self, count_bytes: int) -> None:
        self._left -= count_bytes
        if self._left == 0:
            self._came()
            return
        left_s = self._coming.ends_in_s(self._left, self._wires.now_s)
        if left_s is not None:
            self._nears(left_s)


def _pieces(count_bytes: int, rate_bps: float) -> Iterator[int]:
    """Cut floats: the last part is what comes in twice the time in which an end is near."""
    last = min(count_bytes // 2, int(2 * NEAR_S * rate_bps / 8))
    for part, most, least in ((count_bytes - last, FIRST, FIRST_BYTES), (last, LAST, LAST_BYTES)):
        count = min(most, -(-part // least))
        yield from (part * (at + 1) // count - part * at // count for at in range(count))
