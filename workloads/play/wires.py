"""Connections in simulated time that tell when a message has left and when it has come, and calls at moments.

:mod:`.player` plays synchronisations whose decisions are tables. This is for work whose decisions are Python's, message
by message; it takes some microseconds for each.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import NamedTuple

import numpy as np

from testbed.base.errors import TopologyError
from testbed.topologies.model import Topology
from testbed.workloads.play.arena import Network, Timeline, ways_of

Call = Callable[[], None]


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
    """

    def __init__(
        self, topology: Topology, network: Network, timeline: Timeline, *, seed: int = 0, goodput: float = 1.0
    ) -> None:
        self._topology, self._network, self._timeline = topology, network, timeline
        self._seed, self.goodput = seed, goodput
        self._connections: dict[Lane, tuple[int, float]] = {}
        self._sent: list[deque[tuple[Call, Call]]] = []
        self._delay_s: list[float] = []
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
        return self._connection(Lane(src, dst))[1]

    def send(self, src: int, dst: int, count_bytes: float, left: Call, came: Call) -> None:
        """Send a message after those of the same connection; call ``left`` when it has left, and ``came`` when its
        receiver has it."""
        self.send_along(Lane(src, dst), count_bytes, left, came)

    def send_along(self, lane: Lane, count_bytes: float, left: Call, came: Call) -> None:
        """Send as :meth:`send` over this connection."""
        number, _ = self._connection(lane)
        self._sent[number].append((left, came))
        self._network.send(number, count_bytes / self.goodput)

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
                changed = {change.link: change.rate_bps for change in self._timeline.take()}
                for link, rate_bps in changed.items():
                    network.set_rate(link, rate_bps)
                self._monitor(changed)
                continue
            ended = network.advance(min(later_s, changes_s))
            for number in ended:
                left, came = self._sent[number].popleft()
                self._soon.append(left)
                if self._delay_s[number] > 0:
                    self.at(network.now_s + self._delay_s[number], came)
                else:
                    self._soon.append(came)
            if not ended and math.isinf(later_s) and changes_s > network.now_s:
                return

    def _connection(self, lane: Lane) -> tuple[int, float]:
        """Return the number of a connection, and its delay."""
        known = self._connections.get(lane)
        if known is None:
            ways = list(ways_of(self._topology, self._seed, lane.src, lane.dst))
            if lane.circuit is None and len(ways) > 1:
                names = " and ".join(self._topology.nodes[node].name for node in (lane.src, lane.dst))
                raise TopologyError(
                    f"{names} have {len(ways)} connections; traces are simulated over one",
                    fix="take a topology without parallel circuits and without every_nic",
                )
            path = ways[lane.circuit or 0]
            delay_s = float(np.sum([self._topology.links[link // 2].delay_s for link in path]))
            known = self._connections[lane] = self._network.connect(path), delay_s
            self._sent.append(deque())
            self._delay_s.append(delay_s)
        return known
