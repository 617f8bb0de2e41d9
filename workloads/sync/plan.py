"""What one node does with each chunk: whom it waits for and whom it passes it on to, found once before it starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workloads.sync.chunks import ChunkTable
from workloads.sync.forest import ABSENT, ROOT, Forest


@dataclass(frozen=True)
class Plan:
    """Lists over the chunks and classes, as the event loop indexes them (plain lists: faster than arrays one by one).

    The barrier is a chunk without floats along class 0's trees, after the K chunks of the gradient and in a bucket of
    its own after theirs.

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
        expected: by neighbour, messages that come from it (in an iteration, in a barrier).
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
    expected: dict[int, tuple[int, int]]


def plan(node: int, forest: Forest, chunks: ChunkTable) -> Plan:
    """The plan of ``node``."""
    klass = [*chunks.klass.tolist(), 0]
    bucket = [*chunks.bucket.tolist(), chunks.buckets]
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
        first=[*chunks.start.tolist(), 0],
        last=[*chunks.stop.tolist(), 0],
        klass=klass,
        bucket=bucket,
        members=members,
        children=[class_children[c] for c in klass],
        leaves=[_sending_order(ks, klass, set(leaf), node, forest) for ks in members],
        parent=parent,
        receives=receives,
        forward=forward,
        chunks=(sum(mine[:-1]), int(mine[-1])),
        expected=_expected(node, forest, chunks),
    )


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


def _expected(node: int, forest: Forest, chunks: ChunkTable) -> dict[int, tuple[int, int]]:
    """By neighbour: partial sums where it is a child of ``node``, sums where it is its broadcast-parent."""
    per_class = np.bincount(chunks.klass, minlength=forest.classes)
    from_child = forest.reduce == node
    source = forest.broadcast[:, node]
    senders = set(np.flatnonzero(from_child.any(axis=0)).tolist()) | set(source[source > ROOT].tolist())
    return {
        peer: (
            int(per_class[from_child[:, peer]].sum() + per_class[source == peer].sum()),
            int(from_child[0, peer]) + int(source[0] == peer),
        )
        for peer in senders
    }
