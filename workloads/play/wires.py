"""Connections in simulated time that tell when a message has left and when it has come, and calls at moments.

:mod:`.player` plays synchronisations whose decisions are tables. This is for work whose decisions are Python's, message
by message; it takes some microseconds for each.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from testbed.base.errors import TopologyError, TrialError
from testbed.topologies.model import Topology
from testbed.workloads.play.changes import Change, DelayChange, PathChange, RateChange, Timeline
from testbed.workloads.play.links import Flow, Links, Network, ways_of

Call = Callable[[], None]


@dataclass
class _Wire:
    """A connection: its number in the network, its links and their delay now, what to call of each message that it has
    got, and when its last one comes or has come."""

    number: int
    path: tuple[int, ...]
    delay_s: float
    sent: deque[tuple[Call, Call]] = field(default_factory=deque)
    came_s: float = 0.0


class Lane(NamedTuple):
    """A connection from one node to another. ``circuit`` is its number among their circuits
    (:meth:`.Topology.connections`), None for the only one, and ``number`` its own among those of one circuit."""

    src: int
    dst: int
    circuit: int | None = None
    number: int = 0


class Wires:
    """A network, with a connection for each pair of nodes between which something is sent, and further ones.

    Args:
        seed: draws the path of each connection, as for :class:`.arena.Arena`.
        goodput: share of a link's rate that messages get; the rest is headers.
        flows: those of others.
    """

    def __init__(
        self,
        topology: Topology,
        network: Network,
        timeline: Timeline,
        *,
        seed: int = 0,
        goodput: float = 1.0,
        flows: Sequence[Flow] = (),
    ) -> None:
        self._network, self._timeline = network, timeline
        self._seed, self.goodput = seed, goodput
        self.links = Links(topology, network, seed=seed, goodput=goodput, flows=flows)
        self._wires: dict[Lane, _Wire] = {}
        self._by_number: dict[int, _Wire] = {}
        self._soon: deque[Call] = deque()
        self._later: list[tuple[float, int, Call]] = []
        self._order = count()
        self._monitor: Callable[[Mapping[int, float]], None] = lambda _: None
        self._is_awaited: Callable[[], bool] = lambda: False

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return self._network.now_s

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has left."""
        return self._network.is_idle

    def delay_s(self, src: int, dst: int) -> float:
        """Return the delay of the links between two nodes."""
        return self._wire(Lane(src, dst)).delay_s

    def send(self, src: int, dst: int, count_bytes: float, left: Call, came: Call) -> None:
        """Send a message after those of the same connection; call ``left`` when it has left, and ``came`` when its
        receiver has it."""
        self.send_along(Lane(src, dst), count_bytes, left, came)

    def send_along(self, lane: Lane, count_bytes: float, left: Call, came: Call) -> None:
        """Send as :meth:`send` over this connection."""
        wire = self._wire(lane)
        wire.sent.append((left, came))
        self._network.send(wire.number, count_bytes / self.goodput)

    def require_none_waits(self, workers: Sequence[str]) -> None:
        """
        Raises:
            TrialError: workers with these names wait, although nothing moves any more.
        """
        if workers:
            raise TrialError(
                f"nothing moves after {self.now_s:.9f} s of simulated time, and workers wait: {', '.join(workers)}",
                fix="let the blocked link come back",
            )

    def watch(self, monitor: Callable[[Mapping[int, float]], None], is_awaited: Callable[[], bool]) -> None:
        """Call ``monitor`` with the new rates (bit/s) of directed links whenever some change; also when nothing moves,
        as long as that ``is_awaited``."""
        self._monitor, self._is_awaited = monitor, is_awaited

    def soon(self, call: Call) -> None:
        """Call at this moment, after what was to be called before."""
        self._soon.append(call)

    def at(self, moment_s: float, call: Call) -> None:
        """Call at a moment."""
        heapq.heappush(self._later, (moment_s, next(self._order), call))

    def run(self) -> None:
        """Go on until nothing moves and nothing is to be called."""
        network = self._network
        while True:
            while self._soon:
                self._soon.popleft()()
            if self._later and self._later[0][0] <= network.now_s:
                self._soon.append(heapq.heappop(self._later)[-1])
                continue
            later_s, changes_s = self._later[0][0] if self._later else math.inf, self._timeline.next_s()
            if network.is_idle and not self._later and (math.isinf(changes_s) or not self._is_awaited()):
                return
            if changes_s <= network.now_s:
                self._change(self._timeline.take())
                if self.links.is_stuck(later_s):
                    return
                continue
            ended = network.advance(min(later_s, changes_s))
            for number in ended:
                wire = self._by_number[number]
                left, came = wire.sent.popleft()
                self._soon.append(left)
                wire.came_s = max(network.now_s + wire.delay_s, wire.came_s)  # none overtakes another
                if wire.came_s > network.now_s:
                    self.at(wire.came_s, came)
                else:
                    self._soon.append(came)
            if not ended and math.isinf(later_s) and changes_s > network.now_s:
                return

    def _change(self, changes: Iterable[Change]) -> None:
        rates_bps = {}
        for change in changes:
            self.links.change(change)
            if isinstance(change, RateChange):
                rates_bps[change.link] = change.rate_bps
            if isinstance(change, PathChange):
                for lane, wire in self._wires.items():
                    wire.path = self.links.moved(wire.number, wire.path, self._path(lane), change)
            if isinstance(change, DelayChange | PathChange):
                for wire in self._wires.values():
                    wire.delay_s = self._delay_of(wire.path)
        if rates_bps:
            self._monitor(rates_bps)

    def _delay_of(self, path: tuple[int, ...]) -> float:
        return float(self.links.delay_s[list(path)].sum())

    def _wire(self, lane: Lane) -> _Wire:
        known = self._wires.get(lane)
        if known is None:
            path = self._path(lane)
            known = self._wires[lane] = _Wire(self._network.connect(path), path, self._delay_of(path))
            self._by_number[known.number] = known
        return known

    def _path(self, lane: Lane) -> tuple[int, ...]:
        """Return the path of a connection over the topology as it is now."""
        ways = list(ways_of(self.links.topology, self._seed, lane.src, lane.dst))
        if lane.circuit is None and len(ways) > 1:
            names = " and ".join(self.links.topology.nodes[node].name for node in (lane.src, lane.dst))
            raise TopologyError(
                f"{names} have {len(ways)} connections; traces are simulated over one",
                fix="take a topology without parallel circuits and without every_nic",
            )
        return ways[lane.circuit or 0]


def nothing() -> None:
    """Do nothing, where nobody need know that a message has left, or has come."""
