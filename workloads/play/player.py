"""The loop that plays an actor on a topology, in simulated time."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import TopologyError, TrialError
from testbed.topologies.model import Topology
from testbed.workloads.play.actor import Actor, Compute, Deed, End, Send, Tell
from testbed.workloads.play.fluid import Fluid

MOST_AT_ONCE = 10**6
"""Events at one moment of simulated time: more mean that an actor goes around in a circle."""


@dataclass(frozen=True)
class RateChange:
    """A new rate of a directed link, from a moment on; 0 blocks it."""

    at_s: float
    link: int
    rate_bps: float


class Timeline(Protocol):
    """Changes of rates, as they come."""

    def next_s(self) -> float:
        """Return the moment of the next change; infinite where none is known of."""

    def take(self) -> Iterable[RateChange]:
        """Return the changes of that moment, which has come."""


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


class Planned:
    """A timeline of changes that are known beforehand."""

    def __init__(self, changes: Iterable[RateChange] = ()) -> None:
        self._changes = deque(sorted(changes, key=lambda change: change.at_s))

    def next_s(self) -> float:
        return self._changes[0].at_s if self._changes else math.inf

    def take(self) -> Iterable[RateChange]:
        return (self._changes.popleft(),)


class Player:
    """Simulated time of a topology, on which actors are played one after the other.

    Of several paths, each connection takes one, drawn by ``seed`` with their weights, as a hash would. Of a link's
    rate, messages get the share ``goodput``; the rest is headers. ``engine`` makes the network from the rates of its
    directed links.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        seed: int = 0,
        goodput: float = 1.0,
        timeline: Timeline | None = None,
        engine: Callable[[NDArray[np.float64]], Network] = Fluid,
    ) -> None:
        self._topology, self._seed, self._goodput = topology, seed, goodput
        self._timeline = timeline or Planned()
        self._network = engine(np.repeat([float(link.rate_bps) for link in topology.links], 2))
        self._numbers: dict[tuple[int, int], int] = {}
        self._delay_s: list[float] = []
        self._paths: list[tuple[int, ...]] = []
        self._sent: list[deque[Send]] = []
        self._order = count()
        self._later: list[tuple[float, int, Send | Compute]] = []

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return self._network.now_s

    def rest(self, duration_s: float) -> None:
        """Let time pass in which nothing is sent and no rate changes."""
        self._network.advance(self._network.now_s + duration_s)

    def told(self, actor: Actor) -> Iterator[tuple[float, Tell]]:
        """Play until nothing is left to do; yield what the actor tells, with its time (s).

        Raises:
            TrialError: messages are left that cannot move, or time stands still.
            TopologyError: nodes without a route, or with several connections.
        """
        yield from self._do(actor.begin(self._network.now_s))
        last_s, events = self._network.now_s, 0
        while True:
            happened = self._next()
            if not happened:
                break
            now_s = self._network.now_s
            events = events + len(happened) if now_s == last_s else 0
            last_s = now_s
            if events > MOST_AT_ONCE:
                raise TrialError(
                    f"simulated time stands still at {now_s:.9f} s: more than {MOST_AT_ONCE:,} events",
                    fix="look for messages without bytes that answer each other",
                )
            for event in happened:
                yield from self._do(actor.happened(event, now_s))
        if not self._network.is_idle:
            raise self._stuck()

    def carried_bytes(self) -> NDArray[np.float64]:
        """Return the bytes of messages that have ended, with their headers, by directed link: float64[2 x links]."""
        return self._network.carried_bytes()

    def _put(self, at_s: float, event: Send | Compute) -> None:
        if not math.isfinite(at_s):  # time would never get there, and the play would not end
            raise ValueError(f"{event} at {at_s} s")
        heapq.heappush(self._later, (at_s, next(self._order), event))

    def _next(self) -> list[Send | Compute]:
        """Go on to the next moment at which something happens; return what does, nothing at the end."""
        happened: list[Send | Compute] = []
        while not happened and (self._later or not self._network.is_idle):
            changes_s = self._timeline.next_s()
            ended = self._network.advance(min(changes_s, self._later[0][0] if self._later else math.inf))
            now_s = self._network.now_s
            for connection in ended:
                message = self._sent[connection].popleft()
                if self._delay_s[connection]:
                    self._put(now_s + self._delay_s[connection], message)
                else:
                    happened.append(message)
            if ended:
                continue
            if changes_s <= now_s:
                for change in self._timeline.take():
                    self._network.set_rate(change.link, change.rate_bps)
            elif not self._later:
                break
            while self._later and self._later[0][0] <= now_s:
                happened.append(heapq.heappop(self._later)[2])
        return happened

    def _do(self, deeds: Iterable[Deed]) -> Iterator[tuple[float, Tell]]:
        for deed in deeds:
            if isinstance(deed, Tell):
                yield self._network.now_s, deed
            elif isinstance(deed, End):
                self._later.clear()
            elif isinstance(deed, Compute):
                self._put(self._network.now_s + deed.duration_s, deed)
            else:
                connection = self._connection(deed.src, deed.dst)
                self._sent[connection].append(deed)
                self._network.send(connection, deed.count_bytes / self._goodput)

    def _connection(self, src: int, dst: int) -> int:
        number = self._numbers.get((src, dst))
        if number is None:
            several = self._topology.connections(src, dst)
            if len(several) > 1:
                names = self._topology.nodes
                raise TopologyError(
                    f"{names[src].name} and {names[dst].name} have {len(several)} connections; one can be simulated",
                    fix="take a topology without parallel circuits and without every_nic",
                )
            paths = several[0]
            drawn = random.Random(f"{self._seed} {src} {dst}")
            path = drawn.choices(paths, [path.weight for path in paths])[0]
            number = self._numbers[src, dst] = self._network.connect(path.links)
            self._delay_s.append(sum(self._topology.links[link // 2].delay_s for link in path.links))
            self._paths.append(path.links)
            self._sent.append(deque())
        return number

    def _stuck(self) -> TrialError:
        connection = next(number for number, sent in enumerate(self._sent) if sent)
        message, links = self._sent[connection][0], self._paths[connection]
        names = self._topology.nodes
        way = ", ".join(f"{names[self._topology.tail(d)].name}-{names[self._topology.head(d)].name}" for d in links)
        return TrialError(
            f"nothing moves after {self._network.now_s:.9f} s of simulated time: {message.count_bytes:,.0f} bytes from "
            f"{names[message.src].name} to {names[message.dst].name} wait for the links {way}",
            fix="let the blocked link come back",
        )
