"""Groups of nodes in a picture of a network: racks, pods, groups, and rows."""

from __future__ import annotations

from collections import defaultdict

from testbed.topologies.fat_tree import pod_of
from testbed.topologies.model import Topology

_ROWS = {
    "star": {0: "hosts", 1: "switch"},
    "fat_tree": {0: "hosts", 1: "edge", 2: "aggregation", 3: "core"},
    "cloud": {0: "hosts", 1: "rack", 2: "row", 3: "core"},
    "spine_leaf": {0: "hosts", 1: "leaf", 2: "spine"},
}


def row_name(topology: Topology, level: int) -> str:
    """Name the nodes of a level: a fat-tree's ``edge``, a BCube's ``level 0``."""
    if level == 0:
        return "hosts"
    if topology.family == "bcube":
        return f"level {level - 1}"  # its own count, from 0
    return _ROWS.get(topology.family, {}).get(level, f"level {level}")


def frames(topology: Topology) -> dict[str, list[int]]:
    """Return by label the nodes of each rack, pod or dragonfly group; empty where there is one at most."""
    found: dict[str, list[int]] = defaultdict(list)
    for i in range(len(topology.nodes)):
        label = _frame(topology, i)
        if label:
            found[label].append(i)
    return dict(found) if len(found) > 1 else {}


def _frame(topology: Topology, i: int) -> str:
    node = topology.nodes[i]
    size = topology.params.get({"fat_tree": "k", "dragonfly": "a"}.get(topology.family, ""))
    if topology.family == "fat_tree" and isinstance(size, int):
        half = size // 2
        if node.level == 2:
            return f"pod {pod_of(node)}"
        return "" if node.rack is None else f"pod {node.rack // half}"
    if topology.family == "dragonfly" and isinstance(size, int):
        routers = len(topology.switches)
        router = i - topology.host_count if node.kind == "switch" else i // (topology.host_count // routers)
        return f"group {router // size}"
    return "" if node.rack is None else f"rack {node.rack}"
