"""The plan of a synchronous scheme: for each class of gradient chunks one reduce-tree and one broadcast-tree.

The gradient is cut into classes. Within a class every worker's contribution flows up the reduce-tree, being summed at
each inner node, to the root; from there the sum flows down the broadcast-tree to every worker. Chunks of a class
follow each other along the same trees, so every scheme pipelines by itself. Where a class has members, it is a
collective among these workers alone: the others neither send nor receive for it, and do not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.part import Part

ROOT = -1
"""Mark in a parent array: this node is the tree's root."""
ABSENT = -2
"""Mark in a parent array: this node is not part of the tree."""

Parents = NDArray[np.int32]
Members = NDArray[np.bool_]
BLOCK = 2**18
"""Entries of parent arrays that are worked on at a time: the arrays that are made meanwhile fit a core's cache."""


@dataclass(frozen=True)
class FixedPoint:
    """Settings of fixed point: gradients travel and are added as int32, for switches cannot add floats.

    Attributes:
        scale: integer steps to 1.0 (ATP: 10^6), or None for as many as each chunk's largest element allows so that the
            sum of all workers cannot overflow (SwitchML's block exponents).
        slots: chunks that a switch has room for at a time, ``window`` for each class.
    """

    scale: float | None
    slots: int


class RunBy(Protocol):
    """The runner of a forest in place of our engine, and its settings: a dataclass of the kind of trial that this makes
    it."""

    kind: ClassVar[str]


@dataclass(frozen=True, eq=False)
class Forest:
    """A forest of C classes over V nodes.

    Attributes:
        scheme: the expression that built it, such as ``ps(place=tensor)``.
        nodes: names of the V nodes, in the topology's order.
        workers: node indices that contribute a gradient and need the sum, by rank.
        share: int64[C], the weight of each class in the gradient (only ratios matter unless ``aligned``).
        reduce: int32[C, V], the parent of each node in the class's reduce-tree, ``ROOT`` or ``ABSENT``.
        broadcast: int32[C, V], the same for the broadcast-tree.
        aligned: class c is the c-th run of ``share[c]`` floats of the whole gradient (a tensor placed on a server),
            rather than a share of every bucket.
        fixed: how gradients become integers where switches add them; None where all add floats.
        window: a worker sends the n-th chunk of a class once it has the sum of the (n - window)-th; 0 for no limit.
        run_by: who runs it in place of our engine; None for our engine, which makes sums.
        members: bool[C, V], the workers whose contributions each class sums, and that need its sum; None where those
            are all workers. One class has all of them, be it without a share: barriers go along its trees.
    """

    scheme: str
    nodes: tuple[str, ...]
    workers: tuple[int, ...]
    share: NDArray[np.int64]
    reduce: Parents
    broadcast: Parents
    aligned: bool = False
    fixed: FixedPoint | None = None
    window: int = 0
    run_by: RunBy | None = None
    members: Members | None = None

    @property
    def kind(self) -> str:
        """The kind of trial that it is for (:mod:`testbed.workloads.kinds`)."""
        return "forest" if self.run_by is None else self.run_by.kind

    @property
    def nbytes(self) -> int:
        """Bytes of its trees."""
        return self.reduce.nbytes + self.broadcast.nbytes

    def built_by(self, scheme: str) -> Forest:
        """Return the same forest with another expression."""
        return replace(self, scheme=scheme)

    @property
    def classes(self) -> int:
        """Number of chunk classes, C."""
        return len(self.share)

    def some(self, classes: Sequence[int]) -> Forest:
        """Return the forest of some classes, numbered by their places."""
        kept = list(classes)
        return replace(
            self,
            share=self.share[kept],
            reduce=self.reduce[kept],
            broadcast=self.broadcast[kept],
            members=None if self.members is None else self.members[kept],
        )


def blocks(trees: Parents) -> Iterator[slice]:
    """Yield the classes in runs, so that what is computed of one run takes little memory. There is at least one run."""
    step = max(1, BLOCK // max(1, trees.shape[1]))
    yield from (slice(first, first + step) for first in range(0, max(1, len(trees)), step))


def depths(trees: Parents) -> NDArray[np.int32]:
    """Return int32[C, V]: edges from each tree's root to each node, 0 for absent ones; no tree may have a cycle. Each
    turn of the loop looks twice as far up."""
    inner = trees >= 0
    found = inner.astype(np.int32)
    ancestors = np.where(inner, trees, np.arange(trees.shape[1], dtype=np.int32))
    while (further := np.take_along_axis(found, ancestors, axis=1)).any():
        found += further
        ancestors = np.take_along_axis(ancestors, ancestors, axis=1)
    return found


def ends(trees: Parents) -> Parents:
    """Return int32[C, V]: where V or more steps towards the root lead, also in a circle; a root and an absent node lead
    to themselves."""
    up = np.where(trees >= 0, trees, np.arange(trees.shape[1], dtype=np.int32))
    for _ in range(int(trees.shape[1]).bit_length()):
        further = np.take_along_axis(up, up, axis=1)
        if np.array_equal(further, up):
            break
        up = further
    return up


def placed(forest: Forest, part: Part) -> Forest:
    """Put a forest that was made for :attr:`.Part.topology` into the whole network's numbers of nodes. Ranks stay."""
    number = np.array(part.nodes, dtype=np.int32)
    back = np.argsort(number)
    members = forest.members

    def trees(parents: Parents) -> Parents:
        found: Parents = np.where(parents >= 0, number[np.maximum(parents, 0)], parents)[:, back]
        return found

    return replace(
        forest,
        nodes=tuple(node.name for node in part.whole.nodes),
        workers=tuple(part.nodes[worker] for worker in forest.workers),
        reduce=trees(forest.reduce),
        broadcast=trees(forest.broadcast),
        members=None if members is None else members[:, back],
    )
