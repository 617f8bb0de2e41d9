"""What one node does with each chunk: whom it waits for and whom it passes it on to, found once before it starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.sync.chunks import ChunkTable
from workloads.sync.forest import ABSENT, ROOT, Forest


@dataclass(frozen=True)
class Plan:
    """Lists over the chunks and classes, as the event loop indexes them (plain lists: faster than arrays one by one).

    The barrier is a chunk without floats along the trees of each of :func:`barrier_classes`, after the K chunks of the
    gradient and in a bucket of their own after theirs.

    Attributes:
        first, last: span of each chunk in floats.
        klass, bucket: of each chunk.
        members: chunks of each bucket.
        children: by chunk, partial sums to wait for.
        leaves: by bucket, the chunks that this node may send at once, in the order to send them.
        parent: by class, the node to send the partial sum to, ``ROOT`` or ``ABSENT``.
        receives: by class, whether the sum comes back to this node.
        forward: by class, the nodes to pass the sum on to.
        chunks: (of an iteration, of a barrier) that this node takes part in.
        parts: by bucket, how many of its chunks this node takes part in.
        expected: by neighbour, messages that come from it (in an iteration, in a barrier).
        barrier_rounds: how often a barrier's chunks go around, see :func:`barrier_classes`.
    """

    first: list[int]
    last: list[int]
    klass: list[int]
    bucket: list[int]
    members: list[list[int]]
    children: list[int]
    leaves: list[list[int]]
    parent: list[int]
    receives: list[bool]
    forward: list[list[int]]
    chunks: tuple[int, int]
    parts: list[int]
    expected: dict[int, tuple[int, int]]
    barrier_rounds: int


def plan(node: int, forest: Forest, chunks: ChunkTable) -> Plan:
    """The plan of ``node``."""
    barrier = barrier_classes(forest)
    klass = [*chunks.klass.tolist(), *barrier]
    bucket = [*chunks.bucket.tolist(), *[chunks.buckets] * len(barrier)]
    members: list[list[int]] = [[] for _ in range(chunks.buckets + 1)]
    for k, number in enumerate(bucket):
        members[number].append(k)
    parent = forest.reduce[:, node].tolist()
    receives = (forest.broadcast[:, node] != ABSENT).tolist()
    class_children = np.count_nonzero(forest.reduce == node, axis=1).tolist()
    forward: list[list[int]] = [[] for _ in range(forest.classes)]
    for c, child in np.argwhere(forest.broadcast == node).tolist():
        forward[c].append(child)
    mine = [parent[c] != ABSENT or receives[c] for c in klass]
    leaf = [c for c in range(forest.classes) if parent[c] != ABSENT and not class_children[c]]
    return Plan(
        first=[*chunks.start.tolist(), *[0] * len(barrier)],
        last=[*chunks.stop.tolist(), *[0] * len(barrier)],
        klass=klass,
        bucket=bucket,
        members=members,
        children=[class_children[c] for c in klass],
        leaves=[_sending_order(ks, klass, set(leaf), node, forest) for ks in members],
        parent=parent,
        receives=receives,
        forward=forward,
        chunks=(sum(mine[: len(chunks)]), sum(mine[len(chunks) :])),
        parts=np.bincount(bucket, weights=mine, minlength=chunks.buckets + 1).astype(int).tolist(),
        expected=_expected(node, forest, chunks, barrier),
        barrier_rounds=1 if len(barrier) == 1 else 2,
    )


def barrier_classes(forest: Forest) -> list[int]:
    """The classes whose trees a barrier takes: class 0, and others until each node is in a tree of one.

    Workers are in every class; servers that have hosts of their own may be in one class each. A worker that has got the
    sums of all these classes knows that every node has entered the barrier. A server knows it of the workers only, so
    where there are several classes they go around twice: whoever has entered the second round has left the first.
    """
    member = (forest.reduce != ABSENT) | (forest.broadcast != ABSENT)
    found = [0]
    missing = member.any(axis=0) & ~member[0]
    while missing.any():
        found.append(int(np.argmax(np.count_nonzero(member[:, missing], axis=1))))
        missing &= ~member[found[-1]]
    return found


def _sending_order(ks: list[int], klass: list[int], leaf: set[int], node: int, forest: Forest) -> list[int]:
    """Chunks of leaf classes: the first of each class, the second of each, ...; each worker begins at its own rank's
    class, for if all began at class 0, its root would be the only one to receive."""
    rank = forest.workers.index(node) if node in forest.workers else 0
    seen: dict[int, int] = {}
    keyed: list[tuple[int, int, int]] = []
    for k in ks:
        c = klass[k]
        seen[c] = seen.get(c, -1) + 1
        if c in leaf:
            keyed.append((seen[c], (c - rank) % forest.classes, k))
    return [k for _, _, k in sorted(keyed)]


def _expected(node: int, forest: Forest, chunks: ChunkTable, barrier: list[int]) -> dict[int, tuple[int, int]]:
    """By neighbour: partial sums where it is a child of ``node``, sums where it is its broadcast-parent."""
    per_class = np.bincount(chunks.klass, minlength=forest.classes)
    from_child = forest.reduce == node
    source = forest.broadcast[:, node]
    senders = set(np.flatnonzero(from_child.any(axis=0)).tolist()) | set(source[source > ROOT].tolist())
    return {
        peer: (
            int(per_class[from_child[:, peer]].sum() + per_class[source == peer].sum()),
            int(np.count_nonzero(from_child[barrier, peer]) + np.count_nonzero(source[barrier] == peer)),
        )
        for peer in senders
    }
