"""SwitchML: switches add everything; no server is left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import ABSENT, ROOT, FixedPoint, Forest
from testbed.workloads.sync.trees import DEFAULT_SLOTS, over


def switchml(topology: Topology, tensor_sizes: Sequence[int], *, slots: int = DEFAULT_SLOTS) -> Forest:
    """In-network aggregation in a tree of switches, all of which add, with block exponents; GST >= T_F.

    Every worker sends its gradient to its switch, which sends the sum of its workers to the next, up to a root, from
    where the sum comes back the same way. The root is the switch that is nearest to the farthest worker. Workers scale
    each chunk to the integers that its largest element at any of them allows. ``slots`` chunks fit into a switch.

    Source: Sapio et al., "Scaling Distributed Machine Learning with In-Network Aggregation" (SwitchML), NSDI 2021;
    Rina section II-C.
    """
    able = [switch for switch in topology.switches if topology.nodes[switch].ina]
    if not able:
        raise SchemeError(
            f"switchml adds in switches, and none of {topology.expression} aggregates",
            fix="let them: write ina=all among the topology's parameters",
        )
    found = sorted((_height(topology, switch), switch) for switch in able)
    gaps = []
    for _, root in found:
        trees, gap = _towards(topology, root)
        if gap is None:
            return over(topology, trees, fixed=FixedPoint(None, slots))
        gaps.append((root, gap))
    root, gap = gaps[0]
    raise SchemeError(
        f"switchml adds in every switch, and {topology.nodes[gap].name} of {topology.expression}, on the way to "
        f"{topology.nodes[root].name}, only forwards",
        fix="write ina=all among the topology's parameters, or take atp or rina",
    )


def _height(topology: Topology, root: int) -> int:
    """Count the links from the farthest worker to ``root``."""
    first = {topology.head(topology.ports[host][0]): host for host in topology.hosts}  # one worker a switch
    return max(len(topology.paths(host, root)[0].links) for host in first.values())


def _towards(topology: Topology, root: int) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int32]], int | None]:
    """Return int32[1, V]: the way of each worker to ``root``; and a node on one that cannot add, if there is one."""
    parents = np.full((1, len(topology.nodes)), ABSENT, dtype=np.int32)
    parents[0, root] = ROOT
    for host in topology.hosts:
        for link in topology.paths(host, root)[0].links:
            node, parent = topology.tail(link), topology.head(link)
            if not topology.nodes[parent].ina:
                return parents, parent
            parents[0, node] = parent
    return parents, None
