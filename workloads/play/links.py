"""The links of a topology in simulated time, which change as a timeline says, and the flows of others over them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.model import Path, Topology
from testbed.workloads.play.changes import Change, DarkChange, DelayChange, FlowChange, PathChange, RateChange
from testbed.workloads.play.queues import Queues


class Network(Protocol):
    """Directed links, numbered from 0, and connections that send over them: :class:`.fluid.Fluid`, whose methods say
    more, or another engine."""

    @property
    def now_s(self) -> float:
        """Simulated time."""

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent has ended."""

    def connect(self, path: Sequence[int]) -> int:
        """Return the number of a new connection; numbers ascend from 0."""

    def send(self, connection: int, count_bytes: float) -> None:
        """Let a connection send a message after those that it has."""

    def set_rate(self, link: int, rate_bps: float) -> None:
        """Change a rate from now on."""

    def advance(self, until_s: float = math.inf) -> list[int]:
        """Go on until messages end; return the connections whose messages have ended."""

    def carried_bytes(self) -> NDArray[np.float64]:
        """Return the bytes of messages that have ended, by directed link."""


@dataclass(frozen=True)
class Flow:
    """Connections from one node to another that send while they are told to: as fast as they can, or each at a rate
    (bit/s, without headers)."""

    src: int
    dst: int
    connections: int = 1
    rate_bps: float = 0.0


MOST_CHANGES = 10**5
"""Changes, one after the other, after which messages that cannot move are given up: what comes by chance never ends."""


class Links:
    """Links with their rates, delays and paths, and flows over them that are no player's. Flows, and paths that change,
    take a network with queues (:class:`.queues.Queues`).

    Attributes:
        topology: the topology with the circuits that carry light now.
        delay_s: delays of directed links, now: float64[2 x links].
    """

    def __init__(
        self, topology: Topology, network: Network, *, seed: int = 0, goodput: float = 1.0, flows: Sequence[Flow] = ()
    ) -> None:
        self.topology, self.network = topology, network
        self.delay_s = np.repeat([link.delay_s for link in topology.links], 2)
        self._seed, self._goodput, self._flows = seed, goodput, flows
        self._still = 0
        """Number of the latest changes, one after the other, at which messages could not move."""
        self._flowing: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        """By flow and connection, the number of the connection in the network and its links."""
        self._dark, self._blocked = set[int](), set[int]()
        """Directed links without light, and those that are blocked."""
        if flows:
            self._queues.fill()

    @property
    def is_quiet(self) -> bool:
        """Whether no flow sends, and nothing is under way that one has sent."""
        return not (self._flowing and self._queues.has_flows)

    @property
    def has_flows(self) -> bool:
        """Whether there are flows, which may send now or later."""
        return bool(self._flows)

    def others_bytes(self) -> NDArray[np.float64]:
        """Return the bytes that flows have given to each directed link until now (:meth:`.Queues.others_bytes`)."""
        return self._queues.others_bytes()

    def change(self, change: Change) -> None:
        """Change something now. Owners of connections then take over delays, and paths (:meth:`moved`)."""
        match change:
            case RateChange():
                self._change_rate(change)
            case DelayChange():
                self.delay_s[change.link] = change.delay_s
            case DarkChange():
                (self._dark.add if change.is_dark else self._dark.discard)(change.link)
                self._darken(change.link)
            case FlowChange():
                self._let_flow(change.flow, is_on=change.is_on)
            case PathChange():
                self.topology = change.topology
                for (flow, nth), (number, before) in list(self._flowing.items()):
                    path = self._path_of_flow(flow, nth)
                    self._flowing[flow, nth] = number, self.moved(number, before, path, change)

    def is_stuck(self, later_s: float) -> bool:
        """Whether messages could not move at any of the latest changes, and nobody had anything else to do; to be asked
        at each change. ``later_s`` is when somebody has."""
        is_still = math.isinf(later_s) and isinstance(self.network, Queues) and not self.network.is_idle
        self._still = self._still + 1 if is_still and not self._queues.moves else 0
        return self._still > MOST_CHANGES

    def moved(self, number: int, before: tuple[int, ...], path: tuple[int, ...], change: PathChange) -> tuple[int, ...]:
        """Let a connection take a new path, if the change is one for it; return the path that it has then. A connection
        has number -1 before its first message."""
        if path == before or not (change.links is None or change.links.intersection(before)):
            return before
        if number >= 0:
            self._queues.move(number, path)
        return path

    def end_flows(self) -> list[int]:
        """Let all flows end, and what they sent come; return the bytes of each, without headers."""
        for flow in {flow for flow, _ in self._flowing}:
            self._let_flow(flow, is_on=False)
        if not self.is_quiet:
            self.network.advance()
        came_bytes = [0.0] * len(self._flows)
        for (flow, _), (number, _) in self._flowing.items():
            came_bytes[flow] += self._queues.came_bytes(number) * self._goodput
        return [round(each) for each in came_bytes]

    @property
    def _queues(self) -> Queues:
        assert isinstance(self.network, Queues)
        return self.network

    def _change_rate(self, change: RateChange) -> None:
        if not isinstance(self.network, Queues):
            self.network.set_rate(change.link, change.rate_bps)
            return
        was_blocked = change.link in self._blocked
        (self._blocked.discard if change.rate_bps else self._blocked.add)(change.link)
        if change.rate_bps:
            self.network.set_rate(change.link, change.rate_bps)
        if was_blocked != (change.link in self._blocked):
            self._darken(change.link)

    def _darken(self, link: int) -> None:
        """Let a link lose all that comes to it, or no more."""
        is_blocked = link in self._blocked
        self._queues.darken(link, is_dark=is_blocked or link in self._dark, tells=is_blocked)

    def _let_flow(self, number: int, *, is_on: bool) -> None:
        flow = self._flows[number]
        for nth in range(flow.connections):
            if (number, nth) not in self._flowing:
                path = self._path_of_flow(number, nth)
                self._flowing[number, nth] = self.network.connect(path), path
            connection, _ = self._flowing[number, nth]
            self._queues.let_flow(connection, is_on=is_on, rate_bps=flow.rate_bps / self._goodput)

    def _path_of_flow(self, number: int, nth: int) -> tuple[int, ...]:
        flow = self._flows[number]
        paths = self.topology.connections(flow.src, flow.dst)[0]  # where flows go in other labs, however many there are
        return drawn(paths, f"{self._seed} flow {number} {nth}").links


def ways_of(topology: Topology, seed: int, src: int, dst: int) -> Iterator[tuple[int, ...]]:
    """Draw the path of each connection between two nodes."""
    paths = topology.paths(src, dst)
    if len(paths) == 1:
        yield paths[0].links
        return
    for connection in sorted({path.connection for path in paths}):
        own = [path for path in paths if path.connection == connection]
        yield drawn(own, f"{seed} {src} {dst}" + f" {connection}" * (connection > 0)).links


def drawn(paths: Sequence[Path], name: str) -> Path:
    """Draw a path by its weight, the same for the same name."""
    return paths[0] if len(paths) == 1 else random.Random(name).choices(paths, [path.weight for path in paths])[0]
