"""Refuse a forest that would not give every worker the sum of every contribution, before anything starts.

A class is right when its reduce-tree spans every worker and leads to one root, its broadcast-tree starts from that
root and spans every worker, and each edge of both has a route. A parent array holds each node once, so a node that
reaches the root contributes exactly once; reaching it is checked by pointer jumping (parent of parent of parent ...,
doubling each time), all classes and nodes at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SchemeError, TopologyError
from testbed.topologies.model import Topology
from testbed.workloads.sync.flows import pairs
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest, Parents, blocks, ends

_SHOWN = 6
"""Limit on the nodes of a path or list that a message shows."""


def verify(forest: Forest, topology: Topology) -> None:
    """Return only if the forest sums every worker's gradient exactly once and gives the sum to every worker.

    Raises:
        SchemeError: it does not; the text names the class and the node.
    """
    _check_nodes(forest, topology)
    check_sums(forest)
    _check_routes(forest, topology)


def check_sums(forest: Forest) -> None:
    """Return only if the forest's trees make and give every sum as :func:`verify` says, whatever connects its nodes.

    Raises:
        SchemeError: they do not.
    """
    _check_arrays(forest)
    reduce_root, broadcast_root = (
        np.concatenate([_check_trees(forest, trees, rows, kind) for rows in blocks(trees)])
        for trees, kind in ((forest.reduce, "reduce"), (forest.broadcast, "broadcast"))
    )
    for c in np.flatnonzero(reduce_root != broadcast_root)[:1]:
        ends, starts = forest.nodes[reduce_root[c]], forest.nodes[broadcast_root[c]]
        problem = f"its reduce-tree ends at {ends} but its broadcast-tree starts from {starts}"
        raise refusal(forest, c, problem, "give both trees the same root")
    _check_passing(forest)


def check_form(forest: Forest, topology: Topology) -> None:
    """Return only if the forest can be read: it is over the topology's nodes, and its arrays fit them and each other.

    Raises:
        SchemeError: it cannot.
    """
    _check_nodes(forest, topology)
    _check_arrays(forest)


def _check_arrays(forest: Forest) -> None:
    _check_classes(forest)
    _check_members(forest)
    _check_memory(forest)


def _check_nodes(forest: Forest, topology: Topology) -> None:
    """Check that the forest is over this topology's nodes, and that its workers are hosts."""
    names = tuple(node.name for node in topology.nodes)
    if forest.nodes != names:
        raise SchemeError(
            f"scheme {forest.scheme} was built over {len(forest.nodes)} nodes, "
            f"which are not the {len(names)} of {topology.expression}",
            fix="set nodes=tuple(node.name for node in topology.nodes)",
        )
    strangers = [worker for worker in forest.workers if worker not in topology.hosts]
    if not forest.workers or strangers or len(set(forest.workers)) != len(forest.workers):
        raise SchemeError(
            f"scheme {forest.scheme} has the workers {_shown(list(map(str, forest.workers)))}",
            fix=f"name each worker once, by host index: 0 to {topology.host_count - 1}",
        )


def _check_classes(forest: Forest) -> None:
    """Check that arrays fit each other, that a share is a weight, and that a parent is a node, ``ROOT`` or
    ``ABSENT``."""
    size = len(forest.nodes)
    if forest.share.ndim != 1 or forest.share.dtype != np.int64:
        raise SchemeError(
            f"scheme {forest.scheme}: its shares are {forest.share.dtype}{list(forest.share.shape)}",
            fix="make them int64[classes]",
        )
    for c in np.flatnonzero(forest.share < 0)[:1]:
        raise refusal(forest, c, f"its share is {forest.share[c]}", "make it 0 or more")
    if forest.share.sum() <= 0:
        raise SchemeError(f"scheme {forest.scheme}: no class has a share", fix="make one share more than 0")
    for kind, trees in (("reduce", forest.reduce), ("broadcast", forest.broadcast)):
        if trees.shape != (forest.classes, size) or trees.dtype != np.int32:
            raise SchemeError(
                f"scheme {forest.scheme}: its {kind} array is {trees.dtype}{list(trees.shape)}",
                fix=f"make it int32[{forest.classes}, {size}], classes by nodes",
            )
        for c, node in np.argwhere((trees < ABSENT) | (trees >= size))[:1]:
            problem = f"the {kind}-parent of {forest.nodes[node]} is {trees[c, node]}"
            raise refusal(forest, c, problem, f"use a node, 0 to {size - 1}, ROOT ({ROOT}) or ABSENT ({ABSENT})")


def _check_members(forest: Forest) -> None:
    """Check that each class's members are workers, and that one class has all workers, for barriers."""
    members = forest.members
    if members is None:
        return
    if members.shape != forest.reduce.shape or members.dtype != np.bool_:
        raise SchemeError(
            f"scheme {forest.scheme}: its members are {members.dtype}{list(members.shape)}",
            fix=f"make them bool{list(forest.reduce.shape)}, classes by nodes",
        )
    others = members.copy()
    others[:, list(forest.workers)] = False
    for c, node in np.argwhere(others)[:1]:
        raise refusal(forest, c, f"its member {forest.nodes[node]} is no worker", "let only workers be members")
    for c in np.flatnonzero(~members.any(axis=1))[:1]:
        raise refusal(forest, c, "it has no members", "name at least one, or leave the class out")
    if not (members.sum(axis=1) == len(forest.workers)).any():
        raise SchemeError(
            f"scheme {forest.scheme}: no class has all workers as members, so there is no barrier",
            fix="add a class of share 0 with trees over all workers",
        )
    if forest.fixed is not None:
        raise SchemeError(
            f"scheme {forest.scheme} has classes with members of their own, and sends gradients as integers",
            fix="leave out fixed, or let all workers be members of all classes",
        )


def _check_memory(forest: Forest) -> None:
    """Check that a scale is a positive number, and that every class has the slots that it needs."""
    fixed = forest.fixed
    if forest.window < 0:
        raise SchemeError(f"scheme {forest.scheme}: its window is {forest.window} chunks", fix="make it 0 or more")
    if fixed is None:
        return
    if fixed.scale is not None and not 0 < fixed.scale < float("inf"):
        raise SchemeError(f"scheme {forest.scheme}: its scale is {fixed.scale}", fix="make it a number above 0")
    if fixed.scale is None and not np.array_equal(forest.reduce, forest.broadcast):
        raise SchemeError(
            f"scheme {forest.scheme} agrees on block exponents, and its sums do not go back the way they came",
            fix="make the broadcast-trees the reduce-trees, or give it a scale",
        )
    if fixed.slots < max(1, forest.window) * forest.classes:
        raise SchemeError(
            f"scheme {forest.scheme} has {fixed.slots} slots in a switch for {forest.classes} chunk classes"
            + (f" with {forest.window} chunks of each on the way" if forest.window > 1 else ""),
            fix=f"give slots {max(1, forest.window) * forest.classes} or more",
        )
    if not forest.window:
        raise SchemeError(f"scheme {forest.scheme} has slots and no window", fix="make the window slots // classes")


def _check_trees(forest: Forest, trees: Parents, rows: slice, kind: str) -> NDArray[np.intp]:
    """Check that each of those classes has one root, that every worker is in its tree, and that every node in that
    reaches the root; return the roots."""
    some = trees[rows]
    for c in np.flatnonzero(np.count_nonzero(some == ROOT, axis=1) != 1)[:1]:
        found = [forest.nodes[node] for node in np.flatnonzero(some[c] == ROOT)]
        problem = f"its {kind}-tree has {len(found)} roots" + (f": {_shown(found)}" if found else "")
        raise refusal(forest, rows.start + c, problem, "mark exactly one node ROOT")
    _check_presence(forest, some, rows, kind)
    root: NDArray[np.intp] = np.argmax(some == ROOT, axis=1)
    for c, node in np.argwhere((ends(some) != root[:, None]) & (some != ABSENT))[:1]:
        problem = f"{forest.nodes[node]} does not reach the root {forest.nodes[root[c]]} in its {kind}-tree"
        way = _walk(forest, some[c], int(node))
        raise refusal(forest, rows.start + c, f"{problem}: {way}", "lead every node to the root")
    return root


def _check_presence(forest: Forest, some: Parents, rows: slice, kind: str) -> None:
    """Check that all members of a class are in its tree, and no other worker: it would add its gradient."""
    workers = list(forest.workers)
    absent = some[:, workers] == ABSENT
    wanted = np.ones_like(absent) if forest.members is None else forest.members[rows][:, workers]
    for c, rank in np.argwhere(absent & wanted)[:1]:
        problem = f"the worker {forest.nodes[workers[rank]]} is absent from its {kind}-tree"
        raise refusal(forest, rows.start + c, problem, "give it a parent")
    for c, rank in np.argwhere(~absent & ~wanted)[:1]:
        problem = f"the worker {forest.nodes[workers[rank]]} is in its {kind}-tree, and is none of its members"
        raise refusal(forest, rows.start + c, problem, "make it ABSENT there, or a member")


def _check_passing(forest: Forest) -> None:
    """Check that, in fixed point, a node that sends to a node that is no worker gets the sum from it, if it has one to
    give.

    A worker's next chunk for a slot then comes when the sum has left the slot (:class:`.sums.Slots`).
    """
    if forest.fixed is None:
        return
    adds = np.ones(len(forest.nodes), dtype=bool)
    adds[list(forest.workers)] = False
    parent = np.maximum(forest.reduce, 0)
    gives = np.take_along_axis(forest.broadcast != ABSENT, parent, axis=1)
    wrong = (forest.reduce >= 0) & adds[parent] & gives & (forest.broadcast != parent)
    for c, node in np.argwhere(wrong)[:1]:
        switch = forest.nodes[parent[c, node]]
        problem = f"{forest.nodes[node]} sends to {switch}, which passes the sum on, but not to {forest.nodes[node]}"
        raise refusal(forest, c, problem, f"make {switch} its parent in both trees, or keep sums away from {switch}")


def _check_routes(forest: Forest, topology: Topology) -> None:
    """Check that both ends of each edge can add, and that there is a path from the sender to the receiver."""
    for src, dst in pairs(forest):
        for node in (src, dst):
            name = forest.nodes[node]
            if node >= topology.host_count and not topology.nodes[node].ina:
                fix = f"let it aggregate, with ina=[{name}] in the topology, or let hosts add and send"
                problem = f"{name} is a switch that only forwards"
                raise refusal(forest, _first_class(forest, src, dst), problem, fix)
            if node >= topology.host_count and forest.fixed is None:
                problem = f"{name} is a switch, which adds integers, and gradients travel as floats"
                fix = "give the forest fixed=FixedPoint(scale=1e6, slots=64)"
                raise refusal(forest, _first_class(forest, src, dst), problem, fix)
        try:
            topology.paths(src, dst)
        except TopologyError as error:
            problem = f"{forest.nodes[src]} sends to {forest.nodes[dst]}, but {error.problem}"
            fix = "use edges that the topology connects"
            raise refusal(forest, _first_class(forest, src, dst), problem, fix) from error


def _first_class(forest: Forest, src: int, dst: int) -> int:
    """Find the first class in which ``src`` sends to ``dst``; only if needed, since PS has N^2 pairs."""
    return int(np.argmax((forest.reduce[:, src] == dst) | (forest.broadcast[:, dst] == src)))


def _walk(forest: Forest, parents: Parents, node: int) -> str:
    """Show the way up from ``node``, until it repeats or leaves the tree."""
    seen = [node]
    while parents[node] >= 0:
        node = int(parents[node])
        seen.append(node)
        if node in seen[:-1]:
            return f"it runs in a circle, {_shown([forest.nodes[i] for i in seen], ' -> ')}"
    return f"it ends at {forest.nodes[node]}, which is absent, {_shown([forest.nodes[i] for i in seen], ' -> ')}"


def _shown(names: list[str], between: str = ", ") -> str:
    return between.join(names if len(names) <= _SHOWN else [*names[: _SHOWN - 1], "...", names[-1]])


def refusal(forest: Forest, c: np.intp | int, problem: str, fix: str) -> SchemeError:
    """Make the error about a class of a forest."""
    return SchemeError(f"scheme {forest.scheme}, class {int(c)}: {problem}", fix=fix)
