"""Flows between nodes: the bytes on a forest's edges, added up over the classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.sync.forest import Forest, Parents, blocks


@dataclass(frozen=True, eq=False)
class Flows:
    """Bytes of gradient between nodes in one iteration. Each (sender, receiver) comes once, and they are sorted; if
    there are ``connections``, each (sender, receiver, connection).

    A table of all nodes by all nodes would be simpler, and take 32 GB for 65,536 workers, of which a ring uses as many
    entries as there are workers.

    Attributes:
        senders: int64[E], node indices.
        receivers: int64[E].
        count_bytes: float64[E].
        connections: int64[E], the connection of the two that carries these bytes (:meth:`.Topology.connections`); None
            where all of them share the bytes evenly.
    """

    senders: NDArray[np.int64]
    receivers: NDArray[np.int64]
    count_bytes: NDArray[np.float64]
    connections: NDArray[np.int64] | None = None

    def __iter__(self) -> Iterator[tuple[int, int, float]]:
        return zip(self.senders.tolist(), self.receivers.tolist(), self.count_bytes.tolist(), strict=True)


def flows(forest: Forest, gradient_bytes: float) -> Flows:
    """Compute the bytes that the forest sends in one iteration.

    A class carries ``share / sum(share)`` of the gradient, once up its reduce-tree and once down its broadcast-tree.
    """
    return _both_ways(forest, gradient_bytes * forest.share / forest.share.sum())


def partial_sums(forest: Forest, gradient_bytes: float) -> Flows:
    """Return those flows of :func:`flows` that carry gradients and partial sums up the reduce-trees."""
    children, parents, count_bytes = _edges(forest.reduce, gradient_bytes * forest.share / forest.share.sum())
    return Flows(*_sums(children, parents, count_bytes, len(forest.nodes)))


def broadcasts(forest: Forest, gradient_bytes: float) -> Flows:
    """Return those flows of :func:`flows` that carry sums down the broadcast-trees."""
    children, parents, count_bytes = _edges(forest.broadcast, gradient_bytes * forest.share / forest.share.sum())
    return Flows(*_sums(parents, children, count_bytes, len(forest.nodes)))


def added(several: Sequence[Flows]) -> Flows:
    """Add several flows, each (sender, receiver) once, sorted; all connections share the bytes of each evenly."""
    if any(one.connections is not None for one in several):
        raise ValueError("flows over chosen connections")
    senders = np.concatenate([one.senders for one in several])
    receivers = np.concatenate([one.receivers for one in several])
    count_bytes = np.concatenate([one.count_bytes for one in several])
    return Flows(*_sums(senders, receivers, count_bytes, int(max(senders.max(), receivers.max())) + 1))


def pairs(forest: Forest) -> list[tuple[int, int]]:
    """List each (sender, receiver) of the forest once, sorted."""
    found = _both_ways(forest, np.ones(forest.classes))
    return list(zip(found.senders.tolist(), found.receivers.tolist(), strict=True))


def neighbours(forest: Forest, node: int) -> list[int]:
    """List the nodes that ``node`` exchanges chunks with, sorted: one connection each."""
    found: set[int] = set()
    for trees in (forest.reduce, forest.broadcast):
        found.update(int(parent) for parent in np.unique(trees[:, node]) if parent >= 0)
        found.update(int(child) for child in np.unique(np.nonzero(trees == node)[1]))
    return sorted(found)


def _both_ways(forest: Forest, class_weight: NDArray[np.float64]) -> Flows:
    children, parents, up = _edges(forest.reduce, class_weight)
    receivers, senders, down = _edges(forest.broadcast, class_weight)
    all_senders, all_receivers = np.concatenate((children, senders)), np.concatenate((parents, receivers))
    return Flows(*_sums(all_senders, all_receivers, np.concatenate((up, down)), len(forest.nodes)))


_Edges = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""Edges: children, their parents, and the summed weights of the classes that have the edge."""


def _edges(trees: Parents, class_weight: NDArray[np.float64]) -> _Edges:
    """List each edge from a child to its parent once."""
    size, found = trees.shape[1], []
    for rows in blocks(trees):
        row, child = np.nonzero(trees[rows] >= 0)
        found.append(_sums(child, trees[rows][row, child].astype(np.int64), class_weight[rows][row], size))
    children, parents, weights = (np.concatenate(column) for column in zip(*found, strict=True))
    return _sums(children, parents, weights, size)


def _sums(first: NDArray[np.int64], second: NDArray[np.int64], weight: NDArray[np.float64], size: int) -> _Edges:
    """Sort the pairs, each once, with the sums of their weights."""
    keys, places = np.unique(first * size + second, return_inverse=True)
    total = np.bincount(places, weights=weight, minlength=len(keys)).astype(np.float64)
    return keys // size, keys % size, total
