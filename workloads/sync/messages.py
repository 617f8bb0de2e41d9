"""Messages of one synchronisation along a forest, one by one, made as they are asked for.

Bytes alone do not say how long a synchronisation takes: a node's messages queue, so their order counts as well. Only
leaves have an order that is known beforehand (:func:`.plan.sending_order`). All others send what has come, so their
order follows from that of arrivals.

Chosen: the decisions of the engine (:mod:`.engine`), played on the simplest network: each node sends one message after
the other, all at the same rate, without delay. So each node sends in the order of the engine, given the same arrivals;
windows and gates hold messages back as there. Queues hold what is to be done with a chunk, and make a message when its
turn has come.

Rejected: chunk after chunk, each up its tree and down again. That is simpler and lists the same messages, but no node
sends in that order. Rejected, too: a list of edges between messages. A parameter server's sum waits for all workers,
and goes to all of them, so that N workers have N^3 of these edges.

It knows nothing of priority (:class:`.engine.Engine`) and jitter, which depend on time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.sync.chunks import FLOAT_BYTES, ChunkTable, whole
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest, Parents
from testbed.workloads.sync.plan import Windows, first_class, numbered, sending_order


class What(NamedTuple):
    """The purpose of a message.

    Attributes:
        phase: ``up`` a reduce-tree or ``down`` a broadcast-tree; or with boundary tensors of operators, in a
            ``forward`` or a ``backward`` pass.
        klass: class of the chunk; -1 of a boundary tensor.
        chunk: number of the chunk or the boundary tensor. Chunks from the table's length on carry block exponents.
        bucket: the bucket that must be complete at the sender before it sends up; -1 of a boundary tensor.
        step: how many messages must follow each other before this one (:mod:`.steps`), not counting for windows.
    """

    phase: Literal["up", "down", "forward", "backward"]
    klass: int
    chunk: int
    bucket: int
    step: int


class Message(NamedTuple):
    """A message of a plan.

    Attributes:
        number: names it among those of the plan; numbers leave gaps, and say nothing about order.
        src, dst: nodes.
        bytes: payload.
        after: numbers of the messages to its sender that must have ended before.
        what: its purpose.
    """

    number: int
    src: int
    dst: int
    bytes: int
    after: tuple[int, ...]
    what: What


class Play:
    """The engine's decisions at all nodes, in one iteration whose buckets are all complete when it begins."""

    def __init__(self, forest: Forest, chunks: ChunkTable) -> None:
        self._forest, self._chunks = forest, numbered(forest, chunks)
        self._nodes, self._workers = len(forest.nodes), frozenset(forest.workers)
        self._children = Children(forest.reduce)
        self._forward = self._children if forest.broadcast is forest.reduce else Children(forest.broadcast)
        self._leaves = (forest.reduce != ABSENT) & (self._children.counts == 0)
        self._before = Windows(self._chunks.klass[: self._chunks.data], forest.window).before
        self._later = {k: later for later, k in self._before.items()}
        self._together = [self._chunks.sent_together(gate) for gate in range(len(self._chunks.members))]
        self._queues: list[deque[Iterator[Message]]] = [deque() for _ in forest.nodes]
        self._lacks: dict[tuple[int, int], tuple[int, int]] = {}
        """By chunk and node, of which some partial sums have come: how many are missing, and their step."""
        self._summed: set[tuple[int, int]] = set()
        self._parked: dict[tuple[int, int], int] = {}
        """Chunks that wait for an earlier one's sum at a node, with their step."""

    def messages(self) -> Iterator[Message]:
        """Yield all messages in the order in which they end, so that each comes after those that it needs."""
        for node in range(self._nodes):
            self.begin(node)
        turns: list[tuple[int, int, Message | None]] = [(0, node, None) for node in range(self._nodes)]
        busy = set(range(self._nodes))
        while turns:
            now, node, ended = heapq.heappop(turns)
            if ended is not None:
                yield ended
                self.arrived(ended)
                if ended.dst not in busy:
                    busy.add(ended.dst)
                    heapq.heappush(turns, (now, ended.dst, None))
            message = self.next_message(node)
            if message is None:
                busy.discard(node)
            else:
                heapq.heappush(turns, (now + message.bytes, node, message))

    def incoming(self) -> NDArray[np.int64]:
        """Count the messages that come to each node in all: int64[V]."""
        sent = len(self._chunks.klass) - len(self._chunks.barrier)
        return incoming(
            self._forest, self._children, np.bincount(self._chunks.klass[:sent], minlength=self._forest.classes)
        )

    def begin(self, node: int) -> None:
        """Begin the iteration at a node."""
        for bucket in range(self._chunks.buckets):
            self.complete(node, bucket)

    def complete(self, node: int, bucket: int) -> None:
        """Let a node send what needs nothing but its own part of a bucket."""
        self.queue(node, self._open(node, bucket))

    def arrived(self, message: Message) -> None:
        """Queue what a message lets its receiver send."""
        node, k, step = message.dst, message.what.chunk, message.what.step + 1
        if message.what.phase == "down":
            self.queue(node, self._sum_came(node, k, step))
            return
        missing, latest = self._lacks.pop((k, node), (0, 0))
        missing = (missing or int(self._children.counts[self._chunks.klass[k], node])) - 1
        step = max(step, latest)
        if missing:
            self._lacks[k, node] = missing, step
        else:
            self.queue(node, self._reduced(node, k, step))

    def queue(self, node: int, messages: Iterable[Message]) -> None:
        """Let a node send messages after those that wait already."""
        self._queues[node].append(iter(messages))

    def needs(self, node: int) -> tuple[int, ...]:
        """Return numbers of messages that must have come to a node before its gradient is complete."""
        del node
        return ()

    def next_message(self, node: int) -> Message | None:
        """Take the next message that a node may send now; None where there is none."""
        queue = self._queues[node]
        while queue:
            if (message := next(queue[0], None)) is not None:
                return message
            queue.popleft()
        return None

    def _open(self, node: int, gate: int) -> Iterable[Message]:
        """Send what needs nothing from other nodes but the gate."""
        klass = self._chunks.klass
        classes = set(np.flatnonzero(self._leaves[:, node]).tolist())
        order = sending_order(self._together[gate], klass, first_class(self._forest, node))
        found = chain.from_iterable(self._reduced(node, k, 0) for k in order if klass[k] in classes)
        return list(found) if self._before else found  # a window holds chunks back as the gate opens

    def _reduced(self, node: int, k: int, step: int) -> Iterable[Message]:
        """Pass a chunk up, or at the root down, unless it has to wait for an earlier one's sum."""
        if self._is_root(node, k):
            return self._sum_came(node, k, step)
        if k in self._before and node in self._workers:
            if (self._before[k], node) not in self._summed:
                self._parked[k, node] = step
                return ()
            self._summed.remove((self._before[k], node))
        parent = int(self._forest.reduce[self._chunks.klass[k], node])
        return (self._message(k, node, parent, "up", step, self._after(node, k)),)

    def _sum_came(self, node: int, k: int, step: int) -> Iterable[Message]:
        """Pass a sum down, and send what waited for it."""
        about = k - self._chunks.data
        opened = self._open(node, self._chunks.buckets + 1 + about) if about >= 0 else ()
        return chain(self._down(node, k, step), opened, self._unparked(node, k))

    def _down(self, node: int, k: int, step: int) -> Iterator[Message]:
        c = self._chunks.klass[k]
        after = self._after(node, k) if self._is_root(node, k) else (self._number(k, node, "down"),)
        for child in self._forward.of(c, node):
            yield self._message(k, node, child, "down", step, after)

    def _unparked(self, node: int, k: int) -> Iterable[Message]:
        later = self._later.get(k)
        if later is None or node not in self._workers or self._is_root(node, k):
            return ()
        self._summed.add((k, node))
        step = self._parked.pop((later, node), None)
        return () if step is None else self._reduced(node, later, step)

    def _is_root(self, node: int, k: int) -> bool:
        return bool(self._forest.reduce[self._chunks.klass[k], node] == ROOT)

    def _after(self, node: int, k: int) -> tuple[int, ...]:
        """Return the numbers of the messages that a node needs before it passes a chunk up, or at the root down."""
        found = [self._number(k, child, "up") for child in self._children.of(self._chunks.klass[k], node)]
        if not found and (about := self._chunks.gate[k] - self._chunks.buckets - 1) >= 0:
            found.append(self._number(self._chunks.data + about, node, "down"))
        if k in self._before and node in self._workers and not self._is_root(node, k):
            found.append(self._number(self._before[k], node, "down"))
        return (*self.needs(node), *found)

    def _number(self, k: int, node: int, phase: Literal["up", "down"]) -> int:
        """Return the number of a chunk's message from a node up, or down to a node: there is one of each at most."""
        return 2 * (k * self._nodes + node) + (phase == "down")

    def _message(
        self, k: int, src: int, dst: int, phase: Literal["up", "down"], step: int, after: tuple[int, ...]
    ) -> Message:
        number = self._number(k, src if phase == "up" else dst, phase)
        count_bytes = FLOAT_BYTES * (self._chunks.last[k] - self._chunks.first[k])
        return Message(
            number, src, dst, count_bytes, after, What(phase, self._chunks.klass[k], k, self._chunks.bucket[k], step)
        )


class Children:
    """The children of each node in each tree, by number.

    Attributes:
        nodes: int32, those of node 0 in class 0, then those of node 1, ...; classes follow each other.
        counts: int32[C, V].
    """

    def __init__(self, trees: Parents) -> None:
        classes, children = np.nonzero(trees >= 0)
        keys = classes * trees.shape[1] + trees[classes, children]
        self.nodes = children[np.argsort(keys, kind="stable")].astype(np.int32)
        self.counts = np.bincount(keys, minlength=trees.size).astype(np.int32).reshape(trees.shape)
        self._ends = np.cumsum(self.counts, dtype=np.int32).reshape(trees.shape)

    def of(self, klass: int, node: int) -> list[int]:
        end = self._ends[klass, node]
        found: list[int] = self.nodes[end - self.counts[klass, node] : end].tolist()
        return found


def incoming(forest: Forest, children: Children, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the messages that come to each node: int64[V]. ``children`` are of reduce-trees, and ``chunks``, int64[C],
    is the number of chunks in each class."""
    counts: NDArray[np.int64] = children.counts.T @ chunks + (forest.broadcast >= 0).T @ chunks
    return counts


def messages(forest: Forest, chunks: ChunkTable) -> Iterator[Message]:
    """Yield the messages of one synchronisation, as :meth:`Play.messages` does."""
    return Play(forest, chunks).messages()


def of_classes(forest: Forest, classes: Sequence[int]) -> Iterator[Message]:
    """Yield the messages of some classes, each with one chunk of one float; classes are numbered by their places."""
    share = np.ones(len(classes), np.int64)
    some = replace(forest.some(classes), share=share, aligned=False, fixed=None, window=0)
    return messages(some, whole(some, len(classes)))
