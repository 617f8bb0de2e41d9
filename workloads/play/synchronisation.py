"""Iterations along a forest, as tables for the player: the engine's decisions, as :class:`.messages.Play` has them.

Chosen: tables by chunk and by class and node, from which each message follows when its turn has come (``player.c``). A
list of messages with their predecessors would be larger than a machine's memory: N workers of a parameter server have
N^3 of these.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.play.steps import Steps, no_steps
from testbed.workloads.sync.chunks import FLOAT_BYTES, ChunkTable
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest
from testbed.workloads.sync.messages import Children, incoming
from testbed.workloads.sync.plan import Windows, numbered
from testbed.workloads.sync.steps import all_steps

Numbers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Alike:
    """Links and pairs of nodes of which the same is known beforehand, as each class is another one turned.

    One class is played. Each link carries what any that is like it carries, so that one stands for all of them, and
    each worker has all its sums when the last worker has that of this class.

    Attributes:
        link: int32[2 x links], the directed link that stands for each.
        pair: int32[P], the pair that stands for each.
    """

    link: Numbers
    pair: Numbers


@dataclass(frozen=True, eq=False)
class LateSteps:
    """Steps of a synchronisation that begin late by chance (:mod:`testbed.workloads.sync.steps`).

    Attributes:
        steps: number of steps; 0 if none of them is late.
        up, down: int32[C, V], the step in which a node passes a partial sum up, and a sum down.
        draw_from: int32[workers + 1], the first of a worker's draws among those of an iteration: one for each step in
            which it sends, in the order in which it comes to them; none of a worker whose steps do not jitter.
    """

    steps: int
    up: Numbers
    down: Numbers
    draw_from: Numbers

    @property
    def tables(self) -> dict[str, Numbers]:
        """Tables as ``player.c`` has them."""
        return {"up_step": self.up, "down_step": self.down, "draw_from": self.draw_from}


def none_late(workers: int) -> LateSteps:
    """Return the steps of workers that all begin on time."""
    none = np.zeros(0, np.int32)
    return LateSteps(0, none, none, np.zeros(workers + 1, np.int32))


@dataclass(frozen=True, eq=False)
class Synchronisation:
    """The decisions of all nodes in an iteration: K chunks with those of exponents, C classes, V nodes, G gates.

    Where there are steps, a worker's own parts of all buckets are complete when it has done its last one.

    A node takes partial sums of a bucket when its own part of it is complete, as the engine does. Nodes without a
    gradient take them at once. Each worker begins an iteration when it has the sums of the one before, whatever the
    others do. Messages of two iterations may be under way together.

    Attributes:
        nodes: V.
        workers: nodes, by rank.
        buckets: number of buckets.
        data: number of chunks that hold the gradient.
        klass, bucket: int32[K].
        before, later: int32[K], the chunk whose sum a worker needs to send this one, and the one that it lets go; -1
            where there is none.
        chunk_bytes: float64[K].
        group_from, chunk_from, order: int32: the chunks that pass a gate are groups, each by class.
        parent, below: int32[C, V], in the reduce-tree: the parent, and the number of children.
        forward_from, forward: int32[C * V + 1] and int32: the children in the broadcast-tree.
        up, down: int32[C, V], the pair that a chunk's way up from a node is, or its way down to it.
        pairs: int32[P, 2], nodes between which messages go.
        rank, first_class: int32[V]; rank -1 is no worker.
        missing: int64[V], messages of sums and own buckets that have to come in an iteration.
        steps: what workers do before.
        late: which steps of the synchronisation begin late by chance.
        tensor_pair: int32[M], the pair of each message of steps; -1 where it does not leave its node.
        alike: what stands for what, if this is one class of many that are alike.
        is_ordered: whether a later bucket overtakes earlier ones that wait to be sent (``priority: layer``). Then a
            partial sum that comes before its receiver has the bucket holds up what comes behind it.
        parts: int32[workers, buckets], where forward passes begin early (``overlap: both``): the sums that each worker
            gets in an iteration; otherwise int32[0, 0].
    """

    nodes: int
    workers: tuple[int, ...]
    buckets: int
    data: int
    klass: Numbers
    bucket: Numbers
    before: Numbers
    later: Numbers
    chunk_bytes: NDArray[np.float64]
    group_from: Numbers
    chunk_from: Numbers
    order: Numbers
    parent: Numbers
    below: Numbers
    forward_from: Numbers
    forward: Numbers
    up: Numbers
    down: Numbers
    pairs: Numbers
    rank: Numbers
    first_class: Numbers
    missing: NDArray[np.int64]
    steps: Steps
    late: LateSteps
    tensor_pair: Numbers
    alike: Alike | None = None
    is_ordered: bool = False
    parts: Numbers = field(default_factory=lambda: np.zeros((0, 0), np.int32))

    @property
    def has_passes(self) -> bool:
        """Whether workers begin the next forward pass with the sums that they have."""
        return self.parts.size > 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what the player is told of an iteration: [workers, buckets], when they are complete, or, where there
        are steps, what :meth:`.Steps.times_s` says."""
        workers = len(self.workers)
        return (len(self.steps) + workers,) if len(self.steps) else (workers, self.buckets)

    @property
    def by_worker(self) -> dict[str, Numbers]:
        """Tables of steps, as ``player.c`` has them."""
        steps, ranks = self.steps, range(len(self.workers) + 1)
        takers = steps.rank[steps.taker]
        taken = np.argsort(takers, kind="stable")
        return {
            "step_from": _numbers(np.searchsorted(steps.rank, ranks)),
            "needs": steps.needs,
            "then": steps.then,
            "phase": steps.phase,
            "give_from": _numbers(np.searchsorted(steps.giver, range(len(steps) + 1))),
            "taker": steps.taker,
            "tensor_pair": self.tensor_pair,
            "taken_from": _numbers(np.searchsorted(takers[taken], ranks)),
            "taken": _numbers(taken),
        }


def synchronisation(forest: Forest, chunks: ChunkTable, steps: Steps | None = None) -> Synchronisation:
    """Make the tables of a synchronisation of these chunks, after the steps of workers."""
    steps = steps or no_steps()
    every = numbered(forest, chunks)
    count, nodes = len(every.klass) - len(every.barrier), len(forest.nodes)
    klass = every.klass[:count]
    before, later = _windows(klass[: every.data], forest.window, count)
    together = [every.sent_together(gate) for gate in range(len(every.members))]
    groups = [group for gate in together for group in gate]
    children = Children(forest.reduce)
    forward = children if forest.broadcast is forest.reduce else Children(forest.broadcast)
    per_class = np.bincount(klass, minlength=forest.classes)
    rank = np.full(nodes, -1, np.int32)
    rank[list(forest.workers)] = np.arange(len(forest.workers))
    up, down, tensor_pair, pairs = _pairs(forest, per_class > 0, steps)
    return Synchronisation(
        nodes=nodes,
        workers=forest.workers,
        buckets=every.buckets,
        data=every.data,
        klass=_numbers(klass),
        bucket=_numbers(every.bucket[:count]),
        before=before,
        later=later,
        chunk_bytes=FLOAT_BYTES * (np.array(every.last[:count], float) - every.first[:count]),
        group_from=_numbers([0, *accumulate(map(len, together))]),
        chunk_from=_numbers([0, *accumulate(map(len, groups))]),
        order=_numbers([k for group in groups for k in group]),
        parent=_numbers(forest.reduce),
        below=children.counts,
        forward_from=_numbers(np.concatenate([[0], np.cumsum(forward.counts)])),
        forward=forward.nodes,
        up=up,
        down=down,
        pairs=pairs,
        rank=rank,
        first_class=_numbers(np.maximum(rank, 0) % forest.classes),  # as plan.first_class, and quick
        missing=incoming(forest, children, per_class) + every.buckets * (rank >= 0),
        steps=steps,
        late=none_late(len(forest.workers)),
        tensor_pair=tensor_pair,
    )


def ordered(work: Synchronisation, window: int) -> Synchronisation:
    """Return a forest's synchronisation in which a later bucket overtakes earlier ones (:mod:`.sync.engine`). The
    forest's window counts the chunks of each bucket for themselves then."""
    counted = list(zip(work.klass[: work.data].tolist(), work.bucket[: work.data].tolist(), strict=True))
    before, later = _windows(counted, window, len(work.klass))
    return replace(work, is_ordered=True, before=before, later=later)


def passing(work: Synchronisation, forest: Forest) -> Synchronisation:
    """Return a forest's synchronisation whose workers begin the next forward pass with the sums that they have."""
    gets = ((forest.broadcast != ABSENT) | (forest.reduce == ROOT))[:, list(work.workers)].astype(np.int64)
    in_bucket = np.zeros((work.buckets, forest.classes), np.int64)
    np.add.at(in_bucket, (work.bucket, work.klass), 1)
    return replace(work, parts=_numbers((in_bucket @ gets).T))


def _windows(counted: Sequence[Hashable], window: int, chunks: int) -> tuple[Numbers, Numbers]:
    """Make the tables of chunks that wait for others, and of those that they wait for."""
    before = Windows(counted, window).before
    return _filled(chunks, before), _filled(chunks, {k: later for later, k in before.items()})


def jittering(work: Synchronisation, forest: Forest, nodes: Collection[int]) -> Synchronisation:
    """Return a forest's synchronisation with steps that begin late at some of its workers."""
    up, down = all_steps(forest)
    used = np.unique(work.klass)
    count = work.nodes * forest.classes
    sends_down = (np.diff(work.forward_from[: count + 1]) > 0).reshape(forest.classes, work.nodes)
    draws = [
        len({*up[used, node][forest.reduce[used, node] >= 0], *down[used, node][sends_down[used, node]]})
        if node in nodes
        else 0
        for node in work.workers
    ]
    steps = 1 + int(max(up.max(), down.max()))
    late = LateSteps(steps, _numbers(up), _numbers(down), _numbers([0, *accumulate(draws)]))
    return replace(work, late=late)


def only_steps(nodes: int, workers: tuple[int, ...], steps: Steps) -> Synchronisation:
    """Make the tables of steps alone, after which a worker has its sums: V nodes."""
    src, dst = np.array(workers)[steps.ends].T
    used, pair = np.unique(src * nodes + dst, return_inverse=True)
    none, no_tree = np.zeros(0, np.int32), np.zeros((0, nodes), np.int32)
    rank = np.full(nodes, -1, np.int32)
    rank[list(workers)] = np.arange(len(workers))
    return Synchronisation(
        nodes=nodes,
        workers=workers,
        buckets=1,
        data=0,
        **dict.fromkeys(("klass", "bucket", "before", "later", "order", "forward"), none),
        chunk_bytes=np.zeros(0),
        group_from=np.zeros(2, np.int32),
        chunk_from=np.zeros(1, np.int32),
        **dict.fromkeys(("parent", "below", "up", "down"), no_tree),
        forward_from=np.zeros(1, np.int32),
        pairs=np.stack(np.divmod(used, nodes), axis=1).astype(np.int32),
        rank=rank,
        first_class=np.zeros(nodes, np.int32),
        missing=(rank >= 0).astype(np.int64),
        steps=steps,
        late=none_late(len(workers)),
        tensor_pair=pair.astype(np.int32),
        alike=None,
        is_ordered=False,
    )


def _pairs(forest: Forest, is_used: NDArray[np.bool_], steps: Steps) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Number the pairs of nodes between which messages go, of used classes and of steps."""
    count = len(forest.nodes)
    nodes = np.arange(count)
    up = np.where((forest.reduce >= 0) & is_used[:, None], nodes * count + forest.reduce, -1)
    down = np.where((forest.broadcast >= 0) & is_used[:, None], forest.broadcast.astype(np.int64) * count + nodes, -1)
    src, dst = np.array(forest.workers)[steps.ends].T
    tensors = np.where(src != dst, src * count + dst, -1)
    used = np.unique(np.concatenate([up.ravel(), down.ravel(), tensors]))
    used = used[used >= 0]

    def numbered(ways: NDArray[np.int64]) -> Numbers:
        return _numbers(np.where(ways < 0, -1, np.searchsorted(used, ways)))

    return numbered(up), numbered(down), numbered(tensors), _numbers(np.stack(np.divmod(used, count), axis=1))


def _numbers(values: NDArray[np.int32] | NDArray[np.int64] | list[int]) -> Numbers:
    return np.ascontiguousarray(values, np.int32)


def _filled(size: int, values: dict[int, int]) -> Numbers:
    made = np.full(size, -1, np.int32)
    made[list(values)] = list(values.values())
    return made
