"""Simulated time of a topology, in which players play at the same time (``player.c``): it tells a network what to send,
and when."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import TrialError
from testbed.topologies.model import Topology
from testbed.workloads.play.changes import Change, DelayChange, PathChange, Planned, Timeline
from testbed.workloads.play.compiled import Calls, Compiled, checked, library, no_memory
from testbed.workloads.play.fluid import Fluid
from testbed.workloads.play.links import Flow, Links, Network

if TYPE_CHECKING:
    from testbed.workloads.play.player import Player

MOST_AT_ONCE = 10**6
"""Events at one moment of simulated time: more mean that time stands still."""

OVER, GOES_ON, CHANGES, STANDS_STILL = range(4)
"""Results of ``arena_step``."""


class Arena:
    """Simulated time of a topology, in which players (:class:`.player.Player`) share links.

    Of several paths, each connection takes one, drawn by ``seed`` with their weights, as a hash would. Of a link's
    rate, messages get the share ``goodput``; the rest is headers. ``engine`` makes the network, and ``flows`` are
    those of others.

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
        flows: Sequence[Flow] = (),
    ) -> None:
        self.topology, self.seed, self.goodput = topology, seed, goodput
        self._library, self._timeline = library(), timeline or Planned()
        self._network = engine(topology)
        self.links = Links(topology, self._network, seed=seed, goodput=goodput, flows=flows)
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
                    self._change(change, players)
                if self.links.is_stuck(self._library.arena_later(self.address)):
                    break
        if not self._network.is_idle:
            stuck = (player.waiting() for player in players)
            nbytes, names, route = next(each for each in stuck if each is not None)
            raise TrialError(
                f"nothing moves after {self.now_s:.9f} s of simulated time: {nbytes:,.0f} bytes from {names[0]} to "
                f"{names[1]} wait for the links {route}",
                fix="let the blocked link come back",
            )

    def _change(self, change: Change, players: Sequence[Player]) -> None:
        self.links.change(change)
        for player in players if isinstance(change, DelayChange | PathChange) else ():
            if isinstance(change, PathChange):
                player.take_paths(change)
            player.take_delays()

    def _check(self, said: int) -> None:
        if isinstance(self._called, _Called) and self._called.error is not None:
            raise self._called.error
        if checked(said) == STANDS_STILL:
            raise TrialError(
                f"simulated time stands still at {self.now_s:.9f} s: more than {MOST_AT_ONCE:,} events",
                fix="give links a lower rate, or chunks more bytes",
            )


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

    def _ask(self, state: None, number: int, choose: int, chooser: int) -> int:
        del state, number, choose, chooser
        return 0  # it gets a message when the one before has ended

    def _busy(self, state: None) -> bool:
        del state
        return not self._network.is_idle
