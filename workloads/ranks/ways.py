"""Longest way through the trees of our scheme, shown beside C_dbt: our double binary trees are not the thesis's."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.workloads.ranks.costs import Distances
from testbed.workloads.sync.forest import Forest


def longest_way(forest: Forest, distances: Distances, order: Sequence[int], size_bytes: float = 0.0) -> float:
    """Return the cost of the dearest way of a class, from a leaf up to the root and down to a leaf.

    Args:
        forest: its nodes are hosts, and rank r is node ``order[r]`` of ``distances``.
    """
    dearest = 0.0
    for number, share in enumerate((forest.share / forest.share.sum()).tolist()):
        price = distances.of(share * size_bytes)
        up_and_down = 0.0
        for parents in (forest.reduce[number].tolist(), forest.broadcast[number].tolist()):
            ways = [0.0] * len(order)
            for rank in range(len(order)):
                at = rank
                while parents[at] >= 0:
                    ways[rank] += float(price[order[at], order[parents[at]]])
                    at = parents[at]
            up_and_down += max(ways)
        dearest = max(dearest, up_and_down)
    return dearest
