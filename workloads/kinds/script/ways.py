"""Ways of a script's collectives, by the trees that its engine takes: the bytes on each link, and for players in
simulated time the trees and chunks of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.model import Topology
from testbed.workloads.kinds.ranks import Call, Collected
from testbed.workloads.kinds.script.collectives import calls as on_the_wire
from testbed.workloads.kinds.script.collectives.calls import What
from testbed.workloads.kinds.script.collectives.shapes import EAGER_BYTES, EARLY_BYTES, direct_pieces, fewer, pieces
from testbed.workloads.kinds.script.collectives.trees import of_group, ring_of, too_wide, trees
from testbed.workloads.kinds.script.rounds import BY_GLOO
from testbed.workloads.play.exchange import Moved
from testbed.workloads.sync.chunks import FLOAT_BYTES
from testbed.workloads.sync.flows import flows
from testbed.workloads.sync.forest import Forest

DIRECT = frozenset({"send", "recv", "gather", "scatter", "all_to_all"})
"""Collectives that go from rank to rank. Their size is that of all parts of a rank together, its own included."""
HALVES = frozenset({"float16", "bfloat16"})
"""Types that take twice the bytes where switches add, as 32-bit integers."""

FIRST_NIC = 0
"""The NIC at whose address Gloo reaches a host."""

Loads = tuple[NDArray[np.float64], float]
"""float64[2 x links], bytes by directed link, and bytes that our engine sends on all nodes together."""


class Ways:
    """Loads of collectives, each kind and size worked out once."""

    def __init__(self, plan: Forest, topology: Topology, groups: Mapping[int, Sequence[int]]) -> None:
        """Set up; ``groups`` has, by number, the ranks of groups that are not of all."""
        self._plan, self._topology, self._groups = plan, topology, groups
        self._none = np.zeros(2 * len(topology.links))

    def moved(self, some: Iterable[tuple[int, Call]]) -> Loads:
        """Compute the load of some collectives, each with the rank that reported it. Bytes that Gloo moves beside the
        scheme, such as sums for comparison, are on the links, and not among those that nodes send: that count is our
        engine's."""
        alike = Counter(
            (rank if one.op in DIRECT else -1, one.group, one.op, one.dtype, one.nbytes, one.by, one.root)
            for rank, one in some
        )
        links, wire = self._none.copy(), 0.0
        for (rank, group, op, dtype, nbytes, by, root), count in alike.items():
            if nbytes == 0 or (by == BY_GLOO and op != "allreduce"):
                continue
            if op in DIRECT:
                sent = self._direct(rank, group, op, nbytes, root)
            else:
                sent = self._along_trees(group, _call(op, dtype, nbytes, root), by, nbytes)
            at = FIRST_NIC if by == BY_GLOO else None
            for src, dst, each in sent:
                wire += 0.0 if by == BY_GLOO else count * each
                for path in self._topology.paths(src, dst) if at is None else self._topology.paths_to(src, dst, at):
                    links[path.links,] += count * each * path.weight
        return links, wire

    def _along_trees(self, group: int, call: on_the_wire.Call, by: str, nbytes: int) -> list[tuple[int, int, float]]:
        """List (sender, receiver, bytes) of a call along the group's trees."""
        forest = self._forest(group, call, by)
        widened = 2.0 if forest.fixed is not None and call.op and call.dtype in HALVES else 1.0
        return list(flows(fewer(trees(forest, call), call), widened * nbytes))

    def _direct(self, rank: int, group: int, op: str, nbytes: int, root: int | None) -> list[tuple[int, int, float]]:
        """List (sender, receiver, bytes) from a rank to others in a collective that goes directly; its parts are taken
        for even."""
        members = self._groups.get(group) or range(len(self._plan.workers))
        nodes = {one: self._plan.workers[one] for one in members}
        if op == "send" and root in nodes:
            return [(nodes[rank], nodes[root], float(nbytes))]
        part, target = nbytes / len(nodes), -1 if root is None else [*members][root]
        if op == "all_to_all" or (op == "scatter" and rank == target):
            return [(nodes[rank], node, part) for one, node in nodes.items() if one != rank]
        if op == "gather" and rank != target:
            return [(nodes[rank], nodes[target], part)]
        return []

    def _forest(self, group: int, call: on_the_wire.Call, by: str) -> Forest:
        """Return the trees of the allreduce of a group."""
        members = self._groups.get(group)
        nodes = [self._plan.workers[rank] for rank in members] if members else list(self._plan.workers)
        if by == BY_GLOO:  # whose ranks send to the one before
            return ring_of(self._plan, nodes[::-1])
        if by == "ring" or too_wide(self._plan, call):
            return ring_of(self._plan, nodes)
        return of_group(self._plan, nodes)[0] if members else self._plan


def _call(op: str, dtype: str, nbytes: int, root: int | None) -> on_the_wire.Call:
    """Return the call as the engine knows it."""
    root = -1 if root is None else root
    known = {name for name, _ in on_the_wire.DTYPES}
    adds = op in ("allreduce", "reduce", "reduce_scatter", "barrier")
    one = on_the_wire.Call(What[op.upper()], dtype if dtype in known else "other", 1, "sum" if adds else "", root)
    return on_the_wire.Call(one.what, one.dtype, max(1, nbytes // one.itemsize), one.op, root)


def moved(plan: Forest, ranks: Sequence[int], asked: Collected, chunk_bytes: int) -> tuple[Sequence[Moved], str]:
    """Return the trees and chunks of a collective of float32 among these ranks, and who moves it: ``scheme``, ``ring``
    or ``direct``.

    Raises:
        SchemeError: it has no trees.
    """
    nodes = [plan.workers[rank] for rank in ranks]
    if len(nodes) == 1:
        return (), "scheme"
    if asked.op in DIRECT:
        return [_directly(plan, *ends, asked, len(nodes), chunk_bytes) for ends in _ends(nodes, asked)], "direct"
    forest, is_own = of_group(plan, nodes)
    call = on_the_wire.BARRIER
    if asked.op != "barrier":
        what = What[asked.op.upper()]
        op = "sum" if what in (What.ALLREDUCE, What.REDUCE, What.REDUCE_SCATTER) else ""
        call = on_the_wire.Call(what, "float32", asked.nbytes // FLOAT_BYTES, op, asked.root)
    moves = Moved(*pieces(forest, call, chunk_bytes), call.nbytes <= EAGER_BYTES, EARLY_BYTES)
    return [moves], "scheme" if is_own else "ring"


def _ends(nodes: Sequence[int], asked: Collected) -> Iterator[tuple[int, int]]:
    """Yield sender and receiver of each message of a collective that goes directly."""
    for src in nodes:
        for dst in nodes:
            is_sent = {
                "send": src == nodes[0],
                "scatter": src == nodes[asked.root],
                "gather": dst == nodes[asked.root],
            }.get(asked.op, True)
            if src != dst and is_sent:
                yield src, dst


def _directly(plan: Forest, src: int, dst: int, asked: Collected, ranks: int, chunk_bytes: int) -> Moved:
    nbytes = asked.nbytes if asked.op == "send" else asked.nbytes // ranks
    call = on_the_wire.Call(What.SEND, "float32", max(1, nbytes // FLOAT_BYTES))
    made, chunks = direct_pieces(plan.nodes, (src, dst), call, chunk_bytes)
    return Moved(made, chunks, call.nbytes <= EAGER_BYTES, EARLY_BYTES)
