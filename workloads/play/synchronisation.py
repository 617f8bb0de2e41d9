"""Iterations along a forest, as an actor: the engine's decisions (:class:`.messages.Play`) in time.

Each worker begins an iteration when it has the sums of the one before, whatever the others do. Their messages of two
iterations may be under way together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.play.actor import Compute, Deed, End, Send, Tell
from testbed.workloads.sync.chunks import ChunkTable
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.messages import Message, Play
from testbed.workloads.sync.plan import numbered

SYNCHRONISED = "synchronised"
"""News of a worker that has all its sums of an iteration."""


class Synchronisation:
    """The decisions of all nodes.

    A node takes partial sums of a bucket when its own part of it is complete, as the engine does. Nodes without a
    gradient take them at once.

    It ends after the last iteration, or after an earlier one at whose end no worker has a bucket of the next: from
    there on another play has the same result.
    """

    def __init__(
        self,
        forest: Forest,
        chunks: ChunkTable,
        ready_s: NDArray[np.float64] | None = None,
        start_s: NDArray[np.float64] | None = None,
    ) -> None:
        """Set up.

        Args:
            ready_s: float64[iterations, workers, buckets]: when buckets are complete after the worker has begun the
                iteration; float64[workers, buckets] of one iteration; None: of one, at once.
            start_s: float64[workers]: when each worker begins the first iteration; None: at once.
        """
        shape = len(forest.workers), chunks.buckets
        self._ready_s = (np.zeros(shape) if ready_s is None else ready_s).reshape(-1, *shape)
        self._start_s = np.zeros(shape[0]) if start_s is None else start_s
        self._forest, self._chunks = forest, chunks
        self._ranks = {node: rank for rank, node in enumerate(forest.workers)}
        every = numbered(forest, chunks)
        klass = every.klass[: len(every.klass) - len(every.barrier)]
        per_class = np.bincount(klass, minlength=forest.classes)
        children = np.array([np.count_nonzero(forest.reduce == node, axis=1) for node in range(len(forest.nodes))])
        messages = (children @ per_class + (forest.broadcast >= 0).T @ per_class).tolist()
        self._missing = [count + chunks.buckets * (node in self._ranks) for node, count in enumerate(messages)]
        self._under_way: dict[int, _Iteration] = {}
        self._is_over = False

    def begin(self, now_s: float) -> Iterator[Deed]:
        """Begin: buckets that are complete leave."""
        del now_s
        yield from self._open(0)
        for rank, start_s in enumerate(self._start_s.tolist()):
            yield from self._begin(0, rank, start_s)

    def happened(self, event: Send | Compute, now_s: float) -> Iterator[Deed]:
        """Take a message, or a bucket that is complete now."""
        del now_s
        if self._is_over:
            return
        if isinstance(event, Compute):
            i, node, bucket = cast("tuple[int, int, int]", event.about)
            if i not in self._under_way:
                yield from self._open(i)
            yield from self._complete(i, node, bucket)
            return
        i, message = cast("tuple[int, Message]", event.about)
        iteration, key = self._under_way[i], (message.dst, message.what.bucket)
        if message.what.phase == "up" and key in iteration.lacks:
            iteration.held.setdefault(key, []).append(message)
        else:
            yield from self._take(i, message)

    def _open(self, i: int) -> Iterator[Deed]:
        """Let nodes without a gradient begin an iteration."""
        self._under_way[i] = _Iteration(self._forest, self._chunks, self._missing)
        for node in range(len(self._forest.nodes)):
            if node not in self._ranks:
                for bucket in range(self._chunks.buckets):
                    yield from self._complete(i, node, bucket)

    def _begin(self, i: int, rank: int, start_s: float = 0.0) -> Iterator[Deed]:
        """Let a worker begin an iteration after some time. Where it needs none, it begins the first at once."""
        node = self._forest.workers[rank]
        for bucket, after_s in enumerate((start_s + self._ready_s[i, rank]).tolist()):
            if after_s > 0 or i:
                yield Compute(after_s, (i, node, bucket))
            else:
                yield from self._complete(i, node, bucket)

    def _complete(self, i: int, node: int, bucket: int) -> Iterator[Deed]:
        iteration = self._under_way[i]
        iteration.play.complete(node, bucket)
        if node in self._ranks:
            iteration.lacks.remove((node, bucket))
            iteration.missing[node] -= 1
        yield from self._send(i, node)
        for message in iteration.held.pop((node, bucket), ()):
            yield from self._take(i, message)

    def _take(self, i: int, message: Message) -> Iterator[Deed]:
        iteration = self._under_way[i]
        iteration.play.arrived(message)
        iteration.missing[message.dst] -= 1
        yield from self._send(i, message.dst)

    def _send(self, i: int, node: int) -> Iterator[Deed]:
        iteration = self._under_way[i]
        next_message = iteration.play.next_message
        while (message := next_message(node)) is not None:
            yield Send(node, message.dst, message.bytes, (i, message))
        if node in self._ranks and not iteration.missing[node]:
            yield Tell(node, SYNCHRONISED)
            yield from self._ended(i, node)

    def _ended(self, i: int, node: int) -> Iterator[Deed]:
        iteration, is_last = self._under_way[i], i + 1 == len(self._ready_s)
        iteration.synchronised += 1
        if iteration.synchronised == len(self._ranks) and i + 1 not in self._under_way:
            self._is_over = True
            yield End()
        elif not is_last:
            yield from self._begin(i + 1, self._ranks[node])


class _Iteration:
    """State of an iteration.

    Attributes:
        play: what nodes send.
        lacks: buckets that are not complete, by node.
        held: messages that wait for these.
        missing: number of messages that are not taken yet, by node; for workers also of buckets that are not complete.
        synchronised: number of workers that have all sums.
    """

    def __init__(self, forest: Forest, chunks: ChunkTable, missing: list[int]) -> None:
        self.play = Play(forest, chunks)
        self.lacks = {(node, bucket) for node in forest.workers for bucket in range(chunks.buckets)}
        self.held: dict[tuple[int, int], list[Message]] = {}
        self.missing = missing.copy()
        self.synchronised = 0
