"""Who sends how much to whom: the forest's edges, added up over the classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workloads.sync.forest import Forest, Parents


def flows(forest: Forest, gradient_bytes: float) -> NDArray[np.float64]:
    """float64[V, V]: bytes of gradient that node i sends to node j in one iteration.

    A class carries ``share / sum(share)`` of the gradient, once up its reduce-tree and once down its broadcast-tree.
    """
    class_bytes = gradient_bytes * forest.share / forest.share.sum()
    return _edges_up(forest.reduce, class_bytes) + broadcasts(forest, gradient_bytes)


def broadcasts(forest: Forest, gradient_bytes: float) -> NDArray[np.float64]:
    """float64[V, V]: those of :func:`flows` that carry sums down the broadcast-trees."""
    return _edges_up(forest.broadcast, gradient_bytes * forest.share / forest.share.sum()).T


def pairs(forest: Forest) -> list[tuple[int, int]]:
    """Each (sender, receiver) of the forest once, sorted."""
    each = np.ones(forest.classes)
    used = _edges_up(forest.reduce, each) + _edges_up(forest.broadcast, each).T
    return [(int(src), int(dst)) for src, dst in np.argwhere(used)]


def neighbours(forest: Forest, node: int) -> list[int]:
    """The nodes that ``node`` exchanges chunks with, sorted: one connection each."""
    found: set[int] = set()
    for trees in (forest.reduce, forest.broadcast):
        found.update(int(parent) for parent in np.unique(trees[:, node]) if parent >= 0)
        found.update(int(child) for child in np.unique(np.nonzero(trees == node)[1]))
    return sorted(found)


def _edges_up(trees: Parents, class_weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[V, V]: weight of the classes in which row's parent is column."""
    size = trees.shape[1]
    row, child = np.nonzero(trees >= 0)
    edge = child * size + trees[row, child]
    total: NDArray[np.float64] = np.bincount(edge, weights=class_weight[row], minlength=size * size).astype(np.float64)
    return total.reshape(size, size)
