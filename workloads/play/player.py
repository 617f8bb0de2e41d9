"""The player of a job's synchronisations in simulated time (``player.c``). An arena has the network, and the time."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.model import Topology
from testbed.workloads.play.arena import Arena
from testbed.workloads.play.changes import PathChange
from testbed.workloads.play.compiled import POINTER, WHOLE, checked, library, no_memory
from testbed.workloads.play.links import ways_of
from testbed.workloads.play.synchronisation import Synchronisation

SIZES = (
    "nodes",
    "workers",
    "chunks",
    "data",
    "buckets",
    "gates",
    "pairs",
    "ways",
    "steps",
    "tensors",
    "jitters",
    "together",
    "ordered",
    "passes",
)
ARRAYS = (
    *("klass", "bucket", "before", "later", "bits", "group_from", "chunk_from", "order"),
    *("parent", "below", "forward_from", "forward", "up", "down", "rank", "first_class", "missing"),
    *("way_from", "path_from", "path", "to", "shares", "delay_s"),
    *("step_from", "needs", "then", "phase", "give_from", "taker", "tensor_pair", "taken_from", "taken", "tensor_bits"),
    *("up_step", "down_step", "draw_from", "parts", "node"),
)
NOTES = 4
"""Numbers of a worker in an iteration of steps: when its gradient was ready, and for how long it had no step to take,
by the phase of the step that it then took."""


class _Tables(ctypes.Structure):
    """``struct tables`` of ``player.c``."""

    _fields_ = (*((name, WHOLE) for name in SIZES), *((name, POINTER) for name in ARRAYS))


class Player:
    """A player of synchronisations one after the other, in an arena, perhaps beside others.

    Two nodes have a connection over each of several circuits, as :class:`testbed.workloads.sync.bundle.Bundle` has
    them: a chunk takes the one that has got the fewest bytes, and a message of steps has a part for each.

    Raises:
        TopologyError: nodes without a route.
        MissingToolError: there is no compiled library.
        MemoryLimitError: (every method) there is no memory.
    """

    def __init__(self, arena: Arena, work: Synchronisation, topology: Topology | None = None) -> None:
        """Set up; ``topology`` is the arena's with the circuits that the player meets, if these are others."""
        self.arena, self._work, self._library = arena, work, library()
        self.notes = np.zeros((0, len(work.workers), NOTES))
        """Numbers of workers in the latest play, where there are steps: float64[iterations, workers, 4]
        (:data:`NOTES`). Those of an iteration count once all workers have its sums."""
        self.sums_s = np.zeros((0, len(work.workers)))
        """When workers had all sums in the latest play, where steps jitter: float64[iterations, workers]. They may
        begin the next iteration later. Those of an iteration count once all workers have ended it."""
        self.passes_s = np.zeros((0, len(work.workers), 2))
        """When the forward pass of the next iteration began and ended in the latest play, where passes begin early:
        float64[iterations, workers, 2]. Those of an iteration count once all workers have its sums."""
        self._begun: tuple[NDArray[np.float64] | NDArray[np.int32], ...] = ()
        topology = topology or arena.topology
        ways, hops, links = array("i", [0]), array("i", [0]), array("i")
        for src, dst in work.pairs.tolist():
            for way in ways_of(topology, arena.seed, src, dst):
                links.extend(way)
                hops.append(len(links))
            ways.append(len(hops) - 1)
        self._way_from, path_from, path = (np.array(each, np.int32) for each in (ways, hops, links))
        self._pair_of = np.repeat(np.arange(len(work.pairs)), np.diff(self._way_from))
        self._shares = np.arange(len(self._pair_of), dtype=np.int32)
        if work.alike is not None:  # pairs with one way each
            path, self._shares = work.alike.link[path], work.alike.pair
        self._arrays = {
            **{name: getattr(work, name) for name in ARRAYS if hasattr(work, name)},
            **work.by_worker,
            **work.late.tables,
            "node": np.array(work.workers, np.int32),
            "bits": 8 * (work.chunk_bytes / arena.goodput),
            "tensor_bits": 8 * (work.steps.message_bytes / arena.goodput),
            "way_from": self._way_from,
            "path_from": path_from,
            "path": path,
            "shares": self._shares,
            "to": np.ascontiguousarray(work.pairs[self._pair_of, 1]),
            "delay_s": np.zeros(len(self._pair_of)),
        }
        self.take_delays()
        synchronised = work.nodes, len(work.workers), len(work.klass), work.data, work.buckets, len(work.group_from) - 1
        of_steps = len(work.steps), len(work.tensor_pair)
        of_ways = len(work.pairs), len(self._pair_of)
        rules = work.late.steps, work.alike is not None, work.is_ordered, work.has_passes
        sizes = *synchronised, *of_ways, *of_steps, *rules
        tables = _Tables(*sizes, *(self._arrays[name].ctypes.data for name in ARRAYS))
        self._player = self._library.player_new(arena.address, ctypes.byref(tables))  # it ends with the arena
        if not self._player:
            raise no_memory()

    def take_delays(self) -> None:
        """Take over the delays that the arena's links have now, for messages that have not left their last link."""
        path, path_from = self._arrays["path"], self._arrays["path_from"]
        if len(path):
            self._arrays["delay_s"][:] = np.add.reduceat(self.arena.links.delay_s[path], path_from[:-1])

    def take_paths(self, change: PathChange) -> None:
        """Take over the paths that the arena's links have now, if the change is one for them."""
        links, seed = self.arena.links, self.arena.seed
        numbers = np.ctypeslib.as_array(self._library.player_connections(self._player), (len(self._pair_of),)).tolist()
        ways = (way for src, dst in self._work.pairs.tolist() for way in ways_of(links.topology, seed, src, dst))
        before = np.split(self._arrays["path"], self._arrays["path_from"][1:-1])
        paths = [
            links.moved(number, tuple(had.tolist()), way, change)
            for number, had, way in zip(numbers, before, ways, strict=True)
        ]
        self._arrays["path_from"] = np.cumsum([0, *map(len, paths)], dtype=np.int32)
        self._arrays["path"] = np.array([link for path in paths for link in path], np.int32)
        told = (self._arrays[name].ctypes.data for name in ("path_from", "path"))
        self._library.player_paths(self._player, *told)

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

    def told(
        self,
        ready_s: NDArray[np.float64] | None = None,
        start_s: NDArray[np.float64] | None = None,
        late_s: NDArray[np.float64] | None = None,
        forward_s: NDArray[np.float64] | None = None,
    ) -> Iterator[tuple[float, int]]:
        """Play alone; yield the time (s) at which a worker has all sums of an iteration, and its node. Where one class
        stands for all (:class:`.Alike`), only the last worker of an iteration is told of. Arguments are as for
        :meth:`begin`.

        It ends after the last iteration or, unless forward passes begin early, after an earlier one at whose end no
        worker has a bucket of the next: from there on another play has the same result.

        Raises:
            TrialError: messages are left that cannot move, or time stands still.
        """
        self._begin((ready_s, start_s, late_s, forward_s), to_the_end=self._work.has_passes)
        for now_s, _, node in self.arena.told([self]):
            yield now_s, node

    def begin(
        self,
        ready_s: NDArray[np.float64] | None = None,
        start_s: NDArray[np.float64] | None = None,
        late_s: NDArray[np.float64] | None = None,
        forward_s: NDArray[np.float64] | None = None,
    ) -> None:
        """Begin iterations of which :meth:`.Arena.told` tells.

        Args:
            ready_s: float64[iterations, workers, buckets]: when buckets are complete after the worker has begun the
                iteration; float64[workers, buckets] of one iteration; None: of one, at once. Where there are steps,
                how long these take (:attr:`.Synchronisation.shape`).
            start_s: float64[workers]: when each worker begins the first iteration, from now on; None: at once.
            late_s: float64[iterations, draws]: by how much steps that jitter begin late (:class:`.LateSteps`).
            forward_s: float64[iterations, workers, buckets], where forward passes begin early: how long the layers of a
                bucket take in them. From the second iteration on, buckets are complete after the pass has ended.
        """
        self._begin((ready_s, start_s, late_s, forward_s), to_the_end=True)

    def _begin(self, told: tuple[NDArray[np.float64] | None, ...], *, to_the_end: bool) -> None:
        ready_s, start_s, late_s, forward_s = told
        shape, count = self._work.shape, len(self._work.workers)
        ready = np.ascontiguousarray(np.zeros(shape) if ready_s is None else ready_s, float).reshape(-1, *shape)
        start = np.ascontiguousarray(np.zeros(count) if start_s is None else start_s, float)
        if not (np.isfinite(ready).all() and np.isfinite(start).all()):  # time would never get there
            raise ValueError("a bucket that is never complete, or a worker that never begins")
        self.notes = np.zeros((len(ready) if len(self._work.steps) else 0, count, NOTES))
        draws = int(self._work.late.draw_from[-1])
        late = np.ascontiguousarray(np.zeros((len(ready), draws)) if late_s is None else late_s, float)
        if late.shape != (len(ready), draws):
            raise ValueError(f"{late.shape} draws for {len(ready)} iterations with {draws}")
        self.sums_s = np.full((len(ready) if draws else 0, count), -1.0)
        passes = len(ready) if self._work.has_passes else 0
        forward = np.ascontiguousarray(np.zeros((0, *shape)) if forward_s is None else forward_s, float)
        if len(forward) != passes:
            raise ValueError(f"{len(forward)} forward passes for {passes} iterations in which they begin early")
        self.passes_s = np.zeros((passes, count, 2))
        self._begun = ready, start, late, forward
        arrays = ready, start, self.notes, late, self.sums_s, forward, self.passes_s
        addresses = (each.ctypes.data for each in arrays)
        checked(self._library.player_begin(self._player, len(ready), *addresses, to_the_end))

    def sent_bytes(self) -> NDArray[np.float64]:
        """Return the bytes that have come to their receivers, without headers, by pair of nodes (those of the work)."""
        bits = np.ctypeslib.as_array(self._library.player_carried(self._player), (len(self._pair_of),))
        return np.bincount(self._pair_of, bits[self._shares], len(self._work.pairs)) * self.arena.goodput / 8

    def carried_bytes(self) -> NDArray[np.float64]:
        """Return what links carried as :meth:`.Arena.carried_bytes`, if it plays alone."""
        carried = self.arena.carried_bytes()
        return carried if self._work.alike is None else carried[self._work.alike.link]

    def waiting(self) -> tuple[float, tuple[str, str], str] | None:
        """Return the bytes of a message that waits, the names of its sender and its receiver, and its links in words;
        None if none waits."""
        way = ctypes.c_int32()
        bits = self._library.player_waiting(self._player, ctypes.byref(way))
        if bits < 0:
            return None
        topology = self.arena.topology
        src, dst = (topology.nodes[node].name for node in self._work.pairs[self._pair_of[way.value]].tolist())
        first, end = self._arrays["path_from"][way.value : way.value + 2]
        links = self._arrays["path"][first:end].tolist()
        ends = ((topology.nodes[topology.tail(link)].name, topology.nodes[topology.head(link)].name) for link in links)
        return bits * self.arena.goodput / 8, (src, dst), ", ".join("-".join(each) for each in ends)
