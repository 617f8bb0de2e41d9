"""Simulated time of a topology, in which players play at the same time (``player.c``): it tells a network what to send,
and when."""

from __future__ import annotations

import ctypes
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import TrialError
from testbed.topologies.model import Topology
from testbed.workloads.play.compiled import Calls, Compiled, checked, library, no_memory
from testbed.workloads.play.fluid import Fluid

if TYPE_CHECKING:
    from testbed.workloads.play.player import Player

MOST_AT_ONCE = 10**6
"""Events at one moment of simulated time: more mean that time stands still."""

OVER, GOES_ON, CHANGES, STANDS_STILL = range(4)
"""Results of ``arena_step``."""


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


class Arena:
    """Simulated time of a topology, in which players (:class:`.player.Player`) share links.

    Of several paths, each connection takes one, drawn by ``seed`` with their weights, as a hash would. Of a link's
    rate, messages get the share ``goodput``; the rest is headers. ``engine`` makes the network.

    Raises:
        MissingToolError: there is no compiled library.
        MemoryLimitError: (every method) there is no memory.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        seed: int = 0,
        goodput: float = 1.0,
        timeline: Timeline | None = None,
        engine: Callable[[Topology], Network] = Fluid.over,
    ) -> None:
        self.topology, self.seed, self.goodput = topology, seed, goodput
        self._library, self._timeline = library(), timeline or Planned()
        self._network = engine(topology)
        self._called = self._network if isinstance(self._network, Compiled) else _Called(self._network)
        self.address = self._library.arena_new(ctypes.byref(self._called.calls()), MOST_AT_ONCE)
        """Address of what ``player.c`` knows of it, for its players."""
        if not self.address:
            raise no_memory()

    def __del__(self) -> None:
        if getattr(self, "address", None):
            self._library.arena_free(self.address)

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return self._network.now_s

    def rest(self, duration_s: float) -> None:
        """Let time pass in which nothing is sent and no rate changes."""
        self._network.advance(self._network.now_s + duration_s)

    def carried_bytes(self) -> NDArray[np.float64]:
        """Return the bytes of messages that have ended, with their headers, by directed link: float64[2 x links]."""
        return self._network.carried_bytes()

    def told(self, players: Sequence[Player]) -> Iterator[tuple[float, Player, int]]:
        """Play until nothing is left to do; yield the time (s) at which a worker has all sums of an iteration, its
        player and its node. Meanwhile others of the players, which are all that there are, may begin.

        Raises:
            TrialError: messages are left that cannot move, or time stands still.
        """
        said = GOES_ON
        while said != OVER:
            said = self._library.arena_step(self.address, self._timeline.next_s())
            self._check(said)
            count, now_s = self._library.arena_tell(self.address), self._network.now_s
            told = self._library.arena_told(self.address)[: 2 * count] if count else ()
            for number, node in zip(told[::2], told[1::2], strict=True):
                yield now_s, players[number], node
            if said == CHANGES:
                for change in self._timeline.take():
                    self._network.set_rate(change.link, change.rate_bps)
        if not self._network.is_idle:
            stuck = (player.waiting() for player in players)
            nbytes, names, route = next(each for each in stuck if each is not None)
            raise TrialError(
                f"nothing moves after {self.now_s:.9f} s of simulated time: {nbytes:,.0f} bytes from {names[0]} to "
                f"{names[1]} wait for the links {route}",
                fix="let the blocked link come back",
            )

    def _check(self, said: int) -> None:
        if isinstance(self._called, _Called) and self._called.error is not None:
            raise self._called.error
        if checked(said) == STANDS_STILL:
            raise TrialError(
                f"simulated time stands still at {self.now_s:.9f} s: more than {MOST_AT_ONCE:,} events",
                fix="give links a lower rate, or chunks more bytes",
            )


def ways_of(topology: Topology, seed: int, src: int, dst: int) -> Iterator[tuple[int, ...]]:
    """Draw the path of each connection between two nodes."""
    paths = topology.paths(src, dst)
    if len(paths) == 1:
        yield paths[0].links
        return
    for connection in sorted({path.connection for path in paths}):
        own = [path for path in paths if path.connection == connection]
        name = f"{seed} {src} {dst}" + f" {connection}" * (connection > 0)
        drawn = random.Random(name)
        yield own[0].links if len(own) == 1 else drawn.choices(own, [path.weight for path in own])[0].links


class _Called:
    """A network in Python, as ``player.c`` calls it. ``error`` is what the network raised; the play has ended then."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.error: BaseException | None = None
        self._last = (ctypes.c_int32 * 0)()
        self._functions = [type_(getattr(self, f"_{name}")) for name, type_ in Calls.functions]

    def calls(self) -> Calls:
        """Return its functions, which end with this object."""
        return Calls(None, *self._functions)

    def _connect(self, state: None, path: Any, hops: int) -> int:
        del state
        return self._network.connect(path[:hops])

    def _send(self, state: None, number: int, bits: float) -> int:
        del state
        self._network.send(number, bits / 8)
        return 0

    def _advance(self, state: None, until_s: float) -> int:
        del state
        try:
            ended = self._network.advance(until_s)
        except BaseException as error:  # it is raised where the player has returned
            self.error = error
            return -1
        self._last = (ctypes.c_int32 * len(ended))(*ended)
        return len(ended)

    def _ended(self, state: None) -> int:
        del state
        return ctypes.addressof(self._last)

    def _now(self, state: None) -> float:
        del state
        return self._network.now_s

    def _busy(self, state: None) -> bool:
        del state
        return not self._network.is_idle
