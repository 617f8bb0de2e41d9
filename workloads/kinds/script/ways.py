"""Which links the collectives of a script go over, and how many bytes of each: by the trees that the engine takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from topologies.model import Topology
from workloads.kinds.ranks import Call
from workloads.kinds.script.collectives import calls as on_the_wire
from workloads.kinds.script.collectives.calls import What
from workloads.kinds.script.collectives.shapes import fewer
from workloads.kinds.script.collectives.trees import of_group, ring_of, too_wide, trees
from workloads.sync.cost import cost_of_flows
from workloads.sync.flows import Flows, flows
from workloads.sync.forest import Forest

DIRECT = frozenset({"send", "recv", "gather", "scatter", "all_to_all"})
"""Collectives that go from rank to rank. A call says what its rank sends in it to all others together."""
BY_GLOO = "gloo"
"""Whose sums go around a ring; what else it does is not known."""
HALVES = frozenset({"float16", "bfloat16"})
"""Types that take twice the bytes where switches add, as 32-bit integers."""

Loads = tuple[NDArray[np.float64], float]
"""float64[2 x links], bytes by directed link, and bytes that all nodes together send."""


class Ways:
    """Loads of collectives, each kind and size worked out once."""

    def __init__(self, plan: Forest, topology: Topology, groups: Mapping[int, Sequence[int]]) -> None:
        """``groups`` has, by number, the ranks of groups that are not of all."""
        self._plan, self._topology, self._groups = plan, topology, groups
        self._none = np.zeros(2 * len(topology.links))

    def moved(self, some: Iterable[Call]) -> Loads:
        """What some collectives put on the links."""
        alike = Counter((one.group, one.op, one.dtype, one.nbytes, one.by, one.root) for one in some)
        links, wire = self._none.copy(), 0.0
        for key, count in alike.items():
            more, sent = self._load(*key)
            links, wire = links + count * more, wire + count * sent
        return links, wire

    def _load(self, group: int, op: str, dtype: str, nbytes: int, by: str, root: int | None) -> Loads:
        if nbytes == 0 or op in DIRECT or (by == BY_GLOO and op != "allreduce"):
            return self._none, 0.0
        call = _call(op, dtype, nbytes, -1 if root is None else root)
        forest = self._forest(group, call, by)
        sent = flows(fewer(trees(forest, call), call), float(nbytes))
        if not sent.senders.size:
            return self._none, 0.0
        widened = 2.0 if forest.fixed is not None and call.op and dtype in HALVES else 1.0
        found = cost_of_flows(Flows(sent.senders, sent.receivers, widened * sent.count_bytes), self._topology, 1)
        return found.link_bytes, found.wire_bytes

    def _forest(self, group: int, call: on_the_wire.Call, by: str) -> Forest:
        """The trees of its group's allreduce."""
        members = self._groups.get(group)
        nodes = [self._plan.workers[rank] for rank in members] if members else list(self._plan.workers)
        if by in ("ring", BY_GLOO) or too_wide(self._plan, call):
            return ring_of(self._plan, nodes)
        return of_group(self._plan, nodes)[0] if members else self._plan


def _call(op: str, dtype: str, nbytes: int, root: int) -> on_the_wire.Call:
    """As the engine knows it."""
    known = {name for name, _ in on_the_wire.DTYPES}
    adds = op in ("allreduce", "reduce", "reduce_scatter", "barrier")
    one = on_the_wire.Call(What[op.upper()], dtype if dtype in known else "other", 1, "sum" if adds else "", root)
    return on_the_wire.Call(one.what, one.dtype, max(1, nbytes // one.itemsize), one.op, root)
