"""The trees of a call, made of the trees of a scheme's allreduce.

An allreduce takes the forest as it is. Everything else takes its edges, with other roots: a tree that is rooted at
another node has the same edges, some of them in the other direction. So a broadcast goes down trees rooted at the rank
that has the numbers, a reduction goes up such trees, an all-gather is a broadcast of each rank's piece, and a
reduce-scatter is a reduction of each piece to its rank. For a ring these are the usual two halves of an allreduce.

For one rank there are two choices: the classes that it roots anyway, or all classes rooted anew. A ring does best with
the first (one chain, each byte passes each link once), sharded parameter servers with the second (in place of sending
all to everybody, a rank sends a part to each server). The one is taken that gives the busiest node least to do.

Where switches add, sums and exponents must come back the way they went, so a reduction is an allreduce there of which
the others drop the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SchemeError
from testbed.workloads.kinds.script.collectives.calls import Call, What
from testbed.workloads.learning.parts import spans
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest, Parents, ends
from testbed.workloads.sync.trees import among

MOST_CLASSES = 1024
"""Limit on the classes of a call in which every rank has trees of its own: more make planning slow, and small messages
many."""


def of_group(forest: Forest, nodes: Sequence[int]) -> tuple[Forest, bool]:
    """Make the trees among some of the workers, by rank in the group, and say whether they are the scheme's.

    They are those of the scheme's trees from which all that is left when the others' branches are cut is members. If no
    class has such trees, it is a ring among the members in their order.
    """
    if set(nodes) == set(forest.workers):
        return replace(forest, workers=tuple(nodes), aligned=False), True
    if forest.fixed is None and len(nodes) > 1:
        found = _pruned(forest, nodes)
        if len(found):
            part = forest.some(found.tolist())
            others = np.ones(len(forest.nodes), dtype=bool)
            others[list(nodes)] = False
            part.reduce[:, others] = part.broadcast[:, others] = ABSENT
            return replace(part, workers=tuple(nodes), aligned=False, members=None), True
    return ring_of(forest, nodes), False


def ring_of(forest: Forest, nodes: Sequence[int]) -> Forest:
    """Make a ring among some of the workers, in their order."""
    size = len(forest.nodes)
    reduce, broadcast = among(nodes, size), among(nodes[::-1], size)
    share = np.ones(len(nodes), dtype=np.int64)
    return Forest(f"ring of {len(nodes)}", forest.nodes, tuple(nodes), share, reduce, broadcast)


def trees(forest: Forest, call: Call) -> Forest:
    """Make the trees of a call in a group whose allreduce takes ``forest``; its workers are the members, by rank.

    In the result each class is a run of the numbers where ``aligned``, else a share of them.

    Raises:
        SchemeError: the call has no trees: it goes directly from rank to rank.
    """
    size = len(forest.workers)
    match call.what:
        case What.ALLREDUCE:
            return replace(forest, aligned=False)
        case What.BARRIER:
            return replace(forest.some([0]), share=np.ones(1, np.int64), aligned=False)
        case What.BROADCAST:
            return _joined(forest, call.count, [_down(forest, call.root)])
        case What.REDUCE if forest.fixed is None:
            return _joined(forest, call.count, [_up(forest, call.root)])
        case What.REDUCE_SCATTER if forest.fixed is None:
            return _joined(forest, call.count // size, [_up(forest, rank) for rank in range(size)])
        case What.ALL_GATHER:
            return _joined(forest, call.count // size, [_down(forest, rank) for rank in range(size)])
        case What.REDUCE | What.REDUCE_SCATTER:
            return replace(forest, aligned=False)
    raise SchemeError(f"{call.describe()} goes directly from rank to rank", fix="give it no trees")


def too_wide(forest: Forest, call: Call) -> bool:
    """Whether switches would have to add numbers of 64 bits, which they cannot: these go around a ring of the ranks."""
    return forest.fixed is not None and call.op != "" and call.itemsize > 4


_Ways = tuple[Parents, Parents]
"""Trees of the classes of one rank's piece, up and down: int32[C, V] each."""


def _down(forest: Forest, rank: int) -> _Ways:
    """Make trees from one rank to all."""
    root = forest.workers[rank]
    down = _least_busy(forest, forest.broadcast, root)
    up = np.full_like(down, ABSENT)
    up[:, root] = ROOT
    return up, down


def _up(forest: Forest, rank: int) -> _Ways:
    """Make trees from all to one rank."""
    root = forest.workers[rank]
    up = _least_busy(forest, forest.reduce, root)
    down = np.full_like(up, ABSENT)
    down[:, root] = ROOT
    return up, down


def _least_busy(forest: Forest, some: Parents, root: int) -> Parents:
    """Return trees with that root: those that have it, or all rooted anew."""
    kept = forest.share > 0
    anew = rooted(some[kept], root)
    own = some[kept & (some[:, root] == ROOT)]
    crowded = len(anew) * len(forest.workers) > MOST_CLASSES
    if not len(own):
        return anew[:1] if crowded else anew
    return own if crowded or _busiest(own) <= _busiest(anew) else anew


def _busiest(some: Parents) -> float:
    """Return how much the busiest node sends or receives over tree edges, in units of the whole."""
    children, parents = np.nonzero(some >= 0)[1], some[some >= 0]
    size = some.shape[1]
    up, down = np.bincount(children, minlength=size), np.bincount(parents, minlength=size)
    return float(max(up.max(initial=0), down.max(initial=0))) / len(some)


def rooted(some: Parents, root: int) -> Parents:
    """Return the same trees with another root: the way from it to the old one runs the other way.

    Raises:
        SchemeError: the node is in none of them, or not in all.
    """
    found = some.copy()
    for tree in found:
        if tree[root] == ABSENT:
            raise SchemeError(f"node {root} is not in a tree", fix="take trees of all members")
        node, parent = root, ROOT
        while node != ROOT:
            tree[node], parent, node = parent, node, tree[node]
    return found


def _pruned(forest: Forest, nodes: Sequence[int]) -> NDArray[np.int64]:
    """Return the classes in which no member is below another node than a member, in both trees."""
    member = np.zeros(len(forest.nodes), dtype=bool)
    member[list(nodes)] = True

    def fits(some: Parents) -> NDArray[np.bool_]:
        parents = some[:, member]
        good: NDArray[np.bool_] = ((parents == ROOT) | ((parents >= 0) & member[np.maximum(parents, 0)])).all(axis=1)
        return good

    return np.flatnonzero(fits(forest.reduce) & fits(forest.broadcast) & (forest.share > 0))


def _joined(forest: Forest, count: int, ways: Sequence[_Ways]) -> Forest:
    """Join pieces of ``count`` numbers, one after the other, each along its own trees. There is no window: a window
    counts sums that come back, and none do."""
    return replace(
        forest,
        share=np.array([last - first for up, _ in ways for first, last in spans(count, len(up))], dtype=np.int64),
        reduce=np.concatenate([up for up, _ in ways]),
        broadcast=np.concatenate([down for _, down in ways]),
        aligned=True,
        fixed=None,
        window=0,
        members=None,
    )


def delivers(forest: Forest, call: Call) -> str:
    """Return an empty string if the trees do what the call is for; else the class and the node that get or give too
    little.

    Every member's numbers must reach the root once, and every member that is to have a result must be below it.
    """
    if call.what in (What.BROADCAST, What.REDUCE):
        owners = [call.root] * forest.classes
    elif forest.aligned:
        size = len(forest.workers)
        stops = np.cumsum(forest.share)
        owners = [min(size - 1, int((end - 1) // max(1, call.count // size))) for end in stops]
    else:
        owners = [-1] * forest.classes
    gives_all = call.what not in (What.BROADCAST, What.ALL_GATHER)
    gets_all = call.what in (What.ALLREDUCE, What.BARRIER, What.BROADCAST, What.ALL_GATHER)
    everyone = frozenset(forest.workers)
    for c in np.flatnonzero(forest.share > 0).tolist():
        owner = frozenset({forest.workers[owners[c]]}) if owners[c] >= 0 else everyone
        for some, wanted in (
            (forest.reduce[c], everyone if gives_all else owner),
            (forest.broadcast[c], everyone if gets_all or not forest.aligned else owner),
        ):
            reaching = np.flatnonzero((some[ends(some[None])[0]] == ROOT) & (some != ABSENT))
            if missing := wanted - set(reaching.tolist()):
                return f"class {c} misses {', '.join(forest.nodes[node] for node in sorted(missing))}"
        if np.flatnonzero(forest.reduce[c] == ROOT).tolist() != np.flatnonzero(forest.broadcast[c] == ROOT).tolist():
            return f"class {c} has two roots"
    return ""
