"""The player of synchronisations, in simulated time (``player.c``): it tells a network what to send, and when."""

from __future__ import annotations

import ctypes
import math
import random
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import TrialError
from testbed.topologies.model import Topology
from testbed.workloads.play.compiled import POINTER, WHOLE, Calls, Compiled, checked, library, no_memory
from testbed.workloads.play.fluid import Fluid
from testbed.workloads.play.synchronisation import Synchronisation

MOST_AT_ONCE = 10**6
"""Events at one moment of simulated time: more mean that time stands still."""

OVER, GOES_ON, CHANGES, STANDS_STILL = range(4)
"""Results of ``player_step``."""
SIZES = ("nodes", "workers", "chunks", "data", "buckets", "gates", "pairs", "ways", "steps", "tensors")
ARRAYS = (
    *("klass", "bucket", "before", "later", "bits", "group_from", "chunk_from", "order"),
    *("parent", "below", "forward_from", "forward", "up", "down", "rank", "first_class", "missing"),
    *("way_from", "path_from", "path", "to", "delay_s"),
    *("step_from", "needs", "then", "phase", "give_from", "taker", "tensor_pair", "taken_from", "taken", "tensor_bits"),
)
NOTES = 4
"""Numbers of a worker in an iteration of steps: when its gradient was ready, and for how long it had no step to take,
by the phase of the step that it then took."""


class _Tables(ctypes.Structure):
    """``struct tables`` of ``player.c``."""

    _fields_ = (*((name, WHOLE) for name in SIZES), *((name, POINTER) for name in ARRAYS))


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
    """Simulated time of a topology, in which synchronisations are played one after the other.

    Two nodes have a connection over each of several circuits, as :class:`testbed.workloads.sync.bundle.Bundle` has
    them: a chunk takes the one that has got the fewest bytes, and a message of steps has a part for each.

    Of several paths, each connection takes one, drawn by ``seed`` with their weights, as a hash would. Of a link's
    rate, messages get the share ``goodput``; the rest is headers. ``engine`` makes the network from the rates of its
    directed links.

    Raises:
        TopologyError: nodes without a route.
        MissingToolError: there is no compiled library.
        MemoryLimitError: (every method) there is no memory.
    """

    def __init__(
        self,
        topology: Topology,
        work: Synchronisation,
        *,
        seed: int = 0,
        goodput: float = 1.0,
        timeline: Timeline | None = None,
        engine: Callable[[NDArray[np.float64]], Network] = Fluid,
    ) -> None:
        self._topology, self._work, self._library = topology, work, library()
        self._goodput = goodput
        self.notes = np.zeros((0, len(work.workers), NOTES))
        """Numbers of workers in the latest play, where there are steps: float64[iterations, workers, 4]
        (:data:`NOTES`). Those of an iteration count once all workers have its sums."""
        self._timeline = timeline or Planned()
        self._network = engine(np.array(topology.rates_bps))
        self._called = self._network if isinstance(self._network, Compiled) else _Called(self._network)
        ways, hops, links = array("i", [0]), array("i", [0]), array("i")
        for src, dst in work.pairs.tolist():
            for way in ways_of(topology, seed, src, dst):
                links.extend(way)
                hops.append(len(links))
            ways.append(len(hops) - 1)
        self._way_from, path_from, path = (np.array(each, np.int32) for each in (ways, hops, links))
        self._pair_of = np.repeat(np.arange(len(work.pairs)), np.diff(self._way_from))
        delay_s = np.array([link.delay_s for link in topology.links])[path // 2]
        self._arrays = {
            **{name: getattr(work, name) for name in ARRAYS if hasattr(work, name)},
            **work.by_worker,
            "bits": 8 * (work.chunk_bytes / goodput),
            "tensor_bits": 8 * (work.steps.message_bytes / goodput),
            "way_from": self._way_from,
            "path_from": path_from,
            "path": path,
            "to": np.ascontiguousarray(work.pairs[self._pair_of, 1]),
            "delay_s": np.add.reduceat(delay_s, path_from[:-1]) if len(delay_s) else delay_s,
        }
        synchronised = work.nodes, len(work.workers), len(work.klass), work.data, work.buckets, len(work.group_from) - 1
        sizes = *synchronised, len(work.pairs), len(self._pair_of), len(work.steps), len(work.tensor_pair)
        tables = _Tables(*sizes, *(self._arrays[name].ctypes.data for name in ARRAYS))
        calls = self._called.calls()
        self._player = self._library.player_new(ctypes.byref(tables), ctypes.byref(calls), MOST_AT_ONCE)
        if not self._player:
            raise no_memory()

    def __del__(self) -> None:
        if getattr(self, "_player", None):
            self._library.player_free(self._player)

    @property
    def is_parallel(self) -> bool:
        """Whether two nodes have several connections. Which one carries what then depends on :attr:`turns`."""
        return len(self._pair_of) > len(self._work.pairs)

    @property
    def turns(self) -> NDArray[np.float64]:
        """How many bits each connection has got to send more than that connection of its two nodes that has got the
        fewest: float64[ways], or none if no two nodes have several. Between two plays they may be set."""
        if not self.is_parallel:
            return np.zeros(0)
        given = np.ctypeslib.as_array(self._library.player_given(self._player), (len(self._pair_of),))
        turns: NDArray[np.float64] = given - np.minimum.reduceat(given, self._way_from[:-1])[self._pair_of]
        return turns

    @turns.setter
    def turns(self, turns: NDArray[np.float64]) -> None:
        if self.is_parallel:
            np.ctypeslib.as_array(self._library.player_given(self._player), (len(self._pair_of),))[:] = turns

    def end_after(self, iterations: int) -> None:
        """Let the play that :meth:`told` tells of end after so many iterations: more than any worker has ended."""
        self._library.player_end_after(self._player, iterations)

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return self._network.now_s

    def rest(self, duration_s: float) -> None:
        """Let time pass in which nothing is sent and no rate changes."""
        self._network.advance(self._network.now_s + duration_s)

    def told(
        self, ready_s: NDArray[np.float64] | None = None, start_s: NDArray[np.float64] | None = None
    ) -> Iterator[tuple[float, int]]:
        """Play until nothing is left to do; yield the time (s) at which a worker has all sums of an iteration, and its
        node.

        It ends after the last iteration, or after an earlier one at whose end no worker has a bucket of the next: from
        there on another play has the same result.

        Args:
            ready_s: float64[iterations, workers, buckets]: when buckets are complete after the worker has begun the
                iteration; float64[workers, buckets] of one iteration; None: of one, at once. Where there are steps,
                how long these take (:attr:`.Synchronisation.shape`).
            start_s: float64[workers]: when each worker begins the first iteration; None: at once.

        Raises:
            TrialError: messages are left that cannot move, or time stands still.
        """
        shape, count = self._work.shape, len(self._work.workers)
        ready = np.ascontiguousarray(np.zeros(shape) if ready_s is None else ready_s, float).reshape(-1, *shape)
        start = np.ascontiguousarray(np.zeros(count) if start_s is None else start_s, float)
        if not (np.isfinite(ready).all() and np.isfinite(start).all()):  # time would never get there
            raise ValueError("a bucket that is never complete, or a worker that never begins")
        workers = np.array(self._work.workers, np.int32)
        self.notes = np.zeros((len(ready) if len(self._work.steps) else 0, count, NOTES))
        told = (each.ctypes.data for each in (ready, start, workers, self.notes))
        begun = self._library.player_begin(self._player, len(ready), *told)
        said = GOES_ON if begun >= 0 else begun
        while said != OVER:
            self._checked(said)
            now_s = self._network.now_s
            for node in self._library.player_told(self._player)[: self._library.player_told_count(self._player)]:
                yield now_s, node
            if said == CHANGES:
                for change in self._timeline.take():
                    self._network.set_rate(change.link, change.rate_bps)
            said = self._library.player_step(self._player, self._timeline.next_s())
        if not self._network.is_idle:
            raise self._stuck()

    def carried_bytes(self) -> NDArray[np.float64]:
        """Return the bytes of messages that have ended, with their headers, by directed link: float64[2 x links]."""
        return self._network.carried_bytes()

    def sent_bytes(self) -> NDArray[np.float64]:
        """Return the bytes that have come to their receivers, without headers, by pair of nodes (those of the work)."""
        bits = np.ctypeslib.as_array(self._library.player_carried(self._player), (len(self._pair_of),))
        return np.bincount(self._pair_of, bits, len(self._work.pairs)) * self._goodput / 8

    def _checked(self, said: int) -> None:
        if isinstance(self._called, _Called) and self._called.error is not None:
            raise self._called.error
        if checked(said) == STANDS_STILL:
            raise TrialError(
                f"simulated time stands still at {self._network.now_s:.9f} s: more than {MOST_AT_ONCE:,} events",
                fix="give links a lower rate, or chunks more bytes",
            )

    def _stuck(self) -> TrialError:
        way = ctypes.c_int32()
        bits = self._library.player_waiting(self._player, ctypes.byref(way))
        (src, dst), names = self._work.pairs[self._pair_of[way.value]].tolist(), self._topology.nodes
        tail, head = self._topology.tail, self._topology.head
        first, end = self._arrays["path_from"][way.value : way.value + 2]
        links = self._arrays["path"][first:end].tolist()
        route = ", ".join(f"{names[tail(d)].name}-{names[head(d)].name}" for d in links)
        return TrialError(
            f"nothing moves after {self._network.now_s:.9f} s of simulated time: {bits * self._goodput / 8:,.0f} "
            f"bytes from {names[src].name} to {names[dst].name} wait for the links {route}",
            fix="let the blocked link come back",
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
