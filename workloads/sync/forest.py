"""What a synchronous scheme is: for each class of gradient chunks one reduce-tree and one broadcast-tree.

The gradient is cut into classes. Within a class every worker's contribution flows up the reduce-tree, being summed at
each inner node, to the root; from there the sum flows down the broadcast-tree to every worker. Chunks of a class
follow each other along the same trees, so every scheme pipelines by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

ROOT = -1
"""In a parent array: this node is the tree's root."""
ABSENT = -2
"""In a parent array: this node is not part of the tree."""

Parents = NDArray[np.int32]
BLOCK = 2**18
"""Entries of parent arrays that are worked on at a time: the arrays that are made meanwhile fit a core's cache."""


@dataclass(frozen=True)
class FixedPoint:
    """Gradients travel and are added as int32, for switches cannot add floats.

    Attributes:
        scale: integer steps to 1.0 (ATP: 10^6), or None for as many as each chunk's largest element allows so that the
            sum of all workers cannot overflow (SwitchML's block exponents).
        slots: chunks that a switch has room for at a time, ``window`` for each class.
    """

    scale: float | None
    slots: int


@dataclass(frozen=True)
class Library:
    """Who synchronises in place of our engine; the forest is then what the library is measured against.

    Attributes:
        name: ``gloo`` or ``openmpi``.
        algorithm: which of the library's own.
        segment_bytes: where the algorithm cuts; 0 leaves it to the library.
        exact: the library moves just the forest's bytes; else the forest is only the cheapest that is known.
        polls: it keeps its core busy while it waits, so idle time tells nothing.
    """

    name: Literal["gloo", "openmpi"]
    algorithm: str
    segment_bytes: int
    exact: bool
    polls: bool


@dataclass(frozen=True)
class Asynchronous:
    """Nobody waits for a sum: the root changes its weights by each gradient as it comes, and gives that worker the
    newest ones back (:mod:`workloads.sync.parameter_server`). The trees then say who sends what to whom, and as much
    as a synchronisation takes is what as many updates as there are workers take.

    Attributes:
        staleness: how many iterations a worker may be ahead of the slowest one (SSP); None for any number.
    """

    staleness: int | None


@dataclass(frozen=True, eq=False)
class Forest:
    """C classes over V nodes.

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
        library: who runs it; None for our engine.
        asynchronous: how a parameter server that waits for nobody runs it; None where sums are synchronous.
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
    library: Library | None = None
    asynchronous: Asynchronous | None = None

    @property
    def classes(self) -> int:
        """C, the number of chunk classes."""
        return len(self.share)


def blocks(trees: Parents) -> Iterator[slice]:
    """The classes in runs, so that what is computed of one run takes little memory. There is at least one run."""
    step = max(1, BLOCK // max(1, trees.shape[1]))
    yield from (slice(first, first + step) for first in range(0, max(1, len(trees)), step))
