"""A profile played back: gradients of random values, ready when the published model's would be, sums checked.

Values are whole numbers from -8 to 7, so every sum of them is exact in float32, in whatever order it is made, as in
nccl-tests (verifiable/). Rank r's gradient of iteration i is a piece of one random sequence, which begins at another
place for every r and every i up to :data:`PERIOD`; so a contribution that is missing, counted twice, or left over from
an iteration before makes about fifteen of sixteen elements wrong, and what a sum must be is a piece of a sequence that
is added up once.

A layer's share of the time is its share of the architecture's multiply-adds
(:func:`testbed.workloads.learning.buckets.shares`). The forward pass takes a third of the time: the backward pass makes
two products of each layer, with respect to its inputs and to its weights, where the forward pass makes one (Kaplan et
al. 2020, section 2.1).

Layers follow an ideal clock. A wait can end 1 ms late, because epoll counts in whole milliseconds, and a published
model has up to 545 layers. If each layer began when a wait ended, these delays would add up. So a layer begins when the
layer before it was due to end, or when its sum was complete, whichever is later.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.job import LARGEST, Compute, Replay
from testbed.workloads.learning.compute import Computed
from testbed.workloads.learning.parts import Span
from testbed.workloads.sync.engine import Engine

PERIOD = 64
PIECE = 2**15
"""Floats that are made or compared at once, few enough that they stay in a core's cache."""
FORWARD = 1 / 3
ROOM = 3
"""Factor by which values are made earlier than necessary: as if that took so many times as long as it ever did."""
Floats = NDArray[np.float32]
Part = tuple[Span, Collection[int]]
"""A span of the gradient, in floats, and the ranks whose sum it becomes."""


class Values:
    """Gradients of one rank and what their sums must be: over all ranks, or each part's over some.

    Attributes:
        gradient: float32[floats], what the engine sums in place.
        received: float32[floats], where newer weights arrive, if there are some that are not in ``gradient``.
        took_s: how long it took to make and check values for the first time.
    """

    def __init__(
        self, floats: int, seed: int, rank: int, world: int, tolerance: float = 0.0, parts: Sequence[Part] = ()
    ) -> None:
        """
        Args:
            tolerance: by how much an element of a right sum may be off: 0, unless sums are in fixed point.
            parts: which ranks' values each span is the sum of; they cover the gradient once. All ranks', if empty. A
                part of which this rank is none must stay as it was.
        """
        self.rank = rank
        self._tolerance = tolerance
        sequence = _sequence(floats, seed, world)
        length = floats + PERIOD
        self._mine = sequence[PERIOD * rank : PERIOD * rank + length].copy()
        self._sums: list[tuple[Span, Floats]] = []
        for (start, stop), ranks in parts or [((0, floats), range(world))]:
            total = np.zeros(stop - start + PERIOD, np.float32)  # exact, and six times as fast to compare as integers
            for other in ranks if rank in ranks else [rank]:
                total += sequence[PERIOD * other + start : PERIOD * (other + 1) + stop]
            self._sums.append(((start, stop), total))
        self.gradient: Floats = np.zeros(floats, np.float32)
        self.received = self.gradient
        begun_s = time.monotonic()
        self.fill(0)  # the kernel gives memory when it is first written to: here, rather than in an iteration
        sum(self.looking(0))
        self.took_s = time.monotonic() - begun_s

    def fill(self, iteration: int) -> None:
        """Overwrite ``gradient`` with this rank's values of an iteration."""
        for _ in self.filling(iteration):
            pass

    def filling(self, iteration: int) -> Iterator[None]:
        """Overwrite ``gradient`` as :meth:`fill` does, and yield after each piece."""
        values = self._piece(self._mine, iteration)
        for piece in _pieces(len(values)):
            self.gradient[piece] = values[piece]
            yield

    def learn(self, updates: Sequence[tuple[int, int]], span: Span) -> None:
        """Note updates, (rank, iteration) each, that weights to come contain in this span, besides those before."""

    def wrong(self, iteration: int) -> int:
        """Count the elements of ``gradient`` that differ from what they must be."""
        return sum(self.looking(iteration))

    def looking(self, iteration: int) -> Iterator[int]:
        """Yield how many elements of each piece of ``gradient`` differ from what they must be."""
        begin = iteration % PERIOD
        for (start, stop), total in self._sums:
            found, right = self.gradient[start:stop], total[begin : begin + stop - start]
            for piece in _pieces(len(found)):
                yield self._differing(found[piece], right[piece])

    def _differing(self, found: Floats, right: Floats) -> int:
        if self._tolerance:
            return int(np.count_nonzero(~(np.abs(found - right) <= self._tolerance)))  # NaN is wrong, too
        return int(np.count_nonzero(found != right))

    def _piece(self, sequence: NDArray[np.int8], iteration: int) -> NDArray[np.int8]:
        begin = iteration % PERIOD
        return sequence[begin : begin + len(self.gradient)]


class Updates(Values):
    """Gradients of one rank, and the weights, zeros first, that a server must have made by adding gradients up."""

    def __init__(self, floats: int, seed: int, rank: int, world: int) -> None:
        super().__init__(floats, seed, rank, world)
        self._all = _sequence(floats, seed, world)
        self.received = np.zeros(floats, np.float32)
        self._total = np.zeros(floats, np.int32)
        self._new: list[tuple[int, int, slice]] = []

    def learn(self, updates: Sequence[tuple[int, int]], span: Span) -> None:
        self._new += [(*update, slice(*span)) for update in updates]

    def wrong(self, iteration: int) -> int:  # noqa: ARG002 - whatever this rank has done, all updates count
        """Count the elements of ``received`` that differ from the sum of all updates in it."""
        for rank, done, part in self._new:
            self._total[part] += self._piece(self._all[PERIOD * rank :], done)[part]
        self._new.clear()
        return int(np.count_nonzero(self.received != self._total))


def _pieces(floats: int) -> Iterator[slice]:
    return (slice(begin, begin + PIECE) for begin in range(0, floats, PIECE))


def _sequence(floats: int, seed: int, world: int) -> NDArray[np.int8]:
    """Make the random sequence of which all ranks' gradients are pieces."""
    return np.random.default_rng(seed).integers(-LARGEST, LARGEST, floats + PERIOD * world, dtype=np.int8)


def norms(floats: int, seed: int, world: int) -> Callable[[int, int], float]:
    """Return the function that gives the Euclidean norm of a rank's gradient in an iteration, without making it."""
    squares = np.square(_sequence(floats, seed, world))  # 64 at most
    first = int(squares[:floats].sum(dtype=np.int64))
    gone, new = (np.cumsum(part, dtype=np.int64) for part in (squares[: len(squares) - floats], squares[floats:]))

    def norm(rank: int, iteration: int) -> float:
        begin = PERIOD * rank + iteration % PERIOD
        return math.sqrt(first + (int(new[begin - 1] - gone[begin - 1]) if begin else 0))

    return norm


@dataclass
class Checked:
    """Sums that a worker looked at, and by iteration the number of wrong elements, where any were."""

    count: int = 0
    wrong: dict[int, int] = field(default_factory=dict)


class _Forward(NamedTuple):
    """A forward pass that was played: when it began and was due to end, and for how long it went on after that."""

    begun_s: float
    due_s: float
    late_s: float


class Player:
    """Player of a profile: it releases the buckets when they are due, with new values in each iteration.

    Sums are checked and values made while an iteration computes, so at a pace neither takes time of its own. Both wait
    until the forward pass is about to end, because other workers may still be synchronising when it begins, and need
    the processor.
    """

    def __init__(
        self, replay: Replay, compute: Compute, values: Values, release: Callable[[int], None], sums: Checked
    ) -> None:
        """Set up; ``release(bucket)`` is called once a bucket and iteration, in order."""
        self._paced, self._values, self._release = compute.mode == "paced", values, release
        self._compute, self._shares = compute, replay.shares
        self._forward_s = [FORWARD * share * compute.pace_s for share in replay.shares]
        self._backward_s = [(1 - FORWARD) * share * compute.pace_s for share in replay.shares]
        self._forward: _Forward | None = None
        self._played: int | None = None
        self._sums = sums
        self._chores_s = values.took_s

    def start_s(self) -> float:
        """Return when the next iteration began: now, unless :meth:`forward` has begun it."""
        return self._forward.begun_s if self._forward else time.monotonic()

    def run(self, iteration: int, start_s: float, wait: Callable[[float], None]) -> Computed:
        """Play the iteration that began at ``start_s`` (``time.monotonic``); return when all is released."""
        factor, extra_s = self._compute.slowdown(iteration)
        due_s, overrun_s = start_s + factor * sum(self._forward_s), 0.0
        if self._forward:
            due_s, overrun_s = self._forward.due_s, self._forward.late_s
            self._forward = None
        if self._paced and (early_s := due_s - ROOM * self._chores_s - time.monotonic()) > 0:
            wait(early_s)
        compute_s = self._chores(iteration)
        for bucket, (backward_s, share) in enumerate(zip(self._backward_s, self._shares, strict=True)):
            due_s += factor * backward_s + extra_s * share
            early_s = due_s - time.monotonic()
            if early_s > 0:
                wait(early_s)
            elif self._paced:
                overrun_s = max(overrun_s, -early_s)
            self._release(bucket)
        return Computed(None, compute_s, overrun_s, factor, extra_s)

    def _chores(self, iteration: int) -> float:
        """Check the sum of the iteration before, and make this one's values; return how long that took (s)."""
        begun_s = time.monotonic()
        if self._played is not None:
            self.check(self._played)
        self._played = iteration
        self._values.fill(iteration)
        took_s = time.monotonic() - begun_s
        self._chores_s = max(self._chores_s, took_s)
        return took_s

    def forward(self, iteration: int, engine: Engine, timeout_s: float) -> None:
        """Play the forward pass of ``iteration``, each bucket's layers as soon as their sums are there.

        If the pass ends late, that delay counts as an overrun of ``iteration``.

        Raises:
            TrialTimeoutError, WorkerError: as :meth:`Engine.wait`.
        """
        begun_s, clock_s = None, 0.0
        factor, _ = self._compute.slowdown(iteration)
        for bucket in reversed(range(len(self._forward_s))):
            clock_s = max(clock_s, engine.wait_bucket(bucket, timeout_s))
            begun_s = begun_s or clock_s
            clock_s += factor * self._forward_s[bucket]
            if (left_s := clock_s - time.monotonic()) > 0:
                engine.poll(left_s)
        late_s = max(0.0, time.monotonic() - clock_s) if self._paced else 0.0
        self._forward = _Forward(begun_s or clock_s, clock_s, late_s)

    def check(self, iteration: int) -> None:
        """Count the wrong elements of an iteration's sum, before the gradient is overwritten."""
        self._sums.count += 1
        if count := self._values.wrong(iteration):
            self._sums.wrong[iteration] = count
