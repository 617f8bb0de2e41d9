"""Several collectives at once: one forest of several, each among its own workers and with its own part of the gradient.

Hybrid parallel training needs that: operators that the same servers hold sum their gradients among these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.learning.parts import Span
from testbed.workloads.sync.chunks import ChunkTable
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest, Members, Parents
from testbed.workloads.sync.trees import over

LARGEST_SHARES = 2**62
"""Limit on the sum of all shares, which are int64."""


def check_members(topology: Topology, scheme: str, members: Sequence[Sequence[int]]) -> None:
    """
    Raises:
        SchemeError: a group has fewer than two hosts, names one twice, or one that does not exist.
    """
    for group in members:
        if len(group) < 2:
            raise SchemeError(f"{scheme}: members {list(group)} are not two", fix="give each group two hosts or more")
        for host in group:
            if host not in topology.hosts:
                raise SchemeError(
                    f"{scheme}: members {list(group)} name host {host}",
                    fix=f"name hosts 0 to {topology.host_count - 1}",
                )
            if group.count(host) > 1:
                raise SchemeError(
                    f"{scheme}: members {list(group)} name host {host} twice", fix="name each host of a group once"
                )


def together(
    topology: Topology, parts: Sequence[tuple[Forest, int]], *, aligned: bool = False, workers: Sequence[int] = ()
) -> Forest:
    """Make the forest that runs those forests at once, each with so many floats of the gradient.

    Its workers are those of all, and ``workers`` besides, who only take part in barriers. Where no class has all of
    them, it begins with a class of share 0 for barriers, whose trees join all with the first one.

    Args:
        aligned: the parts are runs of the gradient, one after the other, and so many floats long; else each bucket is
            divided among them in that ratio.
    """
    workers = sorted({*workers, *(worker for forest, _ in parts for worker in forest.workers)})
    members = [_of_all(topology, forest.workers, forest.classes) for forest, _ in parts]
    reduce = [forest.reduce for forest, _ in parts]
    broadcast = [forest.broadcast for forest, _ in parts]
    shares = [_runs(forest, floats) for forest, floats in parts] if aligned else _weights(parts)
    if not any(len(forest.workers) == len(workers) for forest, _ in parts):
        star = _star(topology, workers)
        members, shares = [_of_all(topology, workers, 1), *members], [[0], *shares]
        reduce, broadcast = [star, *reduce], [star, *broadcast]
    share = np.concatenate([np.array(one, dtype=np.int64) for one in shares])
    made = over(
        topology, np.concatenate(reduce), np.concatenate(broadcast), share=share, workers=workers, aligned=aligned
    )
    return replace(made, members=np.concatenate(members))


def summed(forest: Forest, table: ChunkTable) -> list[tuple[Span, tuple[int, ...]]]:
    """List the spans of the gradient, and the ranks whose contributions each is the sum of; the spans cover it once, in
    order."""
    if forest.members is None:
        return [((0, table.total_floats), tuple(range(len(forest.workers))))]
    ranks = [tuple(np.flatnonzero(row).tolist()) for row in forest.members[:, list(forest.workers)]]
    found: list[tuple[Span, tuple[int, ...]]] = []
    for k in np.argsort(table.start):
        span, those = (int(table.start[k]), int(table.stop[k])), ranks[table.klass[k]]
        if found and found[-1][1] == those:
            span = (found.pop()[0][0], span[1])
        found.append((span, those))
    return found


def _weights(parts: Sequence[tuple[Forest, int]]) -> list[list[int]]:
    """Return for each forest the shares of its classes, such that all have one unit."""
    sums = [int(forest.share.sum()) for forest, _ in parts]
    unit, common = math.lcm(*sums), math.gcd(*(floats for _, floats in parts))
    if sum(floats // common * unit for _, floats in parts) > LARGEST_SHARES:
        raise SchemeError(
            f"the sizes of {len(parts)} groups of workers have a least common multiple that is too large",
            fix="take groups of fewer different sizes",
        )
    return [
        [floats // common * (unit // whole) * share for share in forest.share.tolist()]
        for (forest, floats), whole in zip(parts, sums, strict=True)
    ]


def _runs(forest: Forest, floats: int) -> list[int]:
    """Return how many of so many floats each class has."""
    ends = np.cumsum(forest.share).tolist()
    edges = [floats * end // ends[-1] for end in [0, *ends]]
    return [stop - start for start, stop in pairwise(edges)]


def _of_all(topology: Topology, workers: Sequence[int], classes: int) -> Members:
    found = np.zeros((classes, len(topology.nodes)), dtype=np.bool_)
    found[:, list(workers)] = True
    return found


def _star(topology: Topology, workers: Sequence[int]) -> Parents:
    """Make a star, int32[1, V]: all others below the first one."""
    found = np.full((1, len(topology.nodes)), ABSENT, dtype=np.int32)
    found[0, list(workers)] = workers[0]
    found[0, workers[0]] = ROOT
    return found
