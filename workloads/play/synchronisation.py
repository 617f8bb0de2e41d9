"""One synchronisation along a forest, as an actor: the engine's decisions (:class:`.messages.Play`) in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.play.actor import Compute, Deed, Send, Tell
from testbed.workloads.sync.chunks import ChunkTable
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.messages import Message, Play
from testbed.workloads.sync.plan import numbered

SYNCHRONISED = "synchronised"
"""News of a worker that has all its sums."""


class Synchronisation:
    """The decisions of all nodes in one synchronisation.

    A node takes partial sums of a bucket when its own part of it is complete, as the engine does. Nodes without a
    gradient take them at once.
    """

    def __init__(self, forest: Forest, chunks: ChunkTable, ready_s: NDArray[np.float64] | None = None) -> None:
        """Set up; ``ready_s`` says after what time each worker's buckets are complete, float64[workers, buckets]; None:
        at once."""
        self._play, self._buckets = Play(forest, chunks), chunks.buckets
        self._ready_s = np.zeros((len(forest.workers), chunks.buckets)) if ready_s is None else ready_s
        self._workers = {node: rank for rank, node in enumerate(forest.workers)}
        self._nodes = len(forest.nodes)
        self._lacks = {(node, bucket) for node in self._workers for bucket in range(chunks.buckets)}
        self._held: dict[tuple[int, int], list[Message]] = {}
        every = numbered(forest, chunks)
        klass = every.klass[: len(every.klass) - len(every.barrier)]
        per_class = np.bincount(klass, minlength=forest.classes)
        children = np.array([np.count_nonzero(forest.reduce == node, axis=1) for node in range(self._nodes)])
        self._missing = (children @ per_class + (forest.broadcast >= 0).T @ per_class).tolist()
        """Number of messages that are not taken yet, by node; for workers also of buckets that are not complete."""
        for node in self._workers:
            self._missing[node] += chunks.buckets

    def begin(self, now_s: float) -> Iterator[Deed]:
        """Begin: buckets that are complete leave."""
        del now_s
        for node in range(self._nodes):
            rank = self._workers.get(node)
            for bucket in range(self._buckets):
                after_s = 0.0 if rank is None else float(self._ready_s[rank, bucket])
                if after_s > 0:
                    yield Compute(after_s, (node, bucket))
                else:
                    yield from self._complete(node, bucket)

    def happened(self, event: Send | Compute, now_s: float) -> Iterator[Deed]:
        """Take a message, or a bucket that is complete now."""
        del now_s
        if isinstance(event, Compute):
            yield from self._complete(*cast("tuple[int, int]", event.about))
            return
        message = cast("Message", event.about)
        key = message.dst, message.what.bucket
        if message.what.phase == "up" and key in self._lacks:
            self._held.setdefault(key, []).append(message)
        else:
            yield from self._take(message)

    def _complete(self, node: int, bucket: int) -> Iterator[Deed]:
        self._play.complete(node, bucket)
        if node in self._workers:
            self._lacks.remove((node, bucket))
            self._missing[node] -= 1
        yield from self._send(node)
        for message in self._held.pop((node, bucket), ()):
            yield from self._take(message)

    def _take(self, message: Message) -> Iterator[Deed]:
        self._play.arrived(message)
        self._missing[message.dst] -= 1
        yield from self._send(message.dst)

    def _send(self, node: int) -> Iterator[Deed]:
        while (message := self._play.next_message(node)) is not None:
            yield Send(node, message.dst, message.bytes, message)
        if node in self._workers and not self._missing[node]:
            yield Tell(node, SYNCHRONISED)
