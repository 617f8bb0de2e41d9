"""BML's hierarchical synchronisation on a fat-tree: by edge switch, by aggregation switch, by pod."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.trees import digit_trees, over


def hierarchical(topology: Topology, tensor_sizes: Sequence[int]) -> Forest:
    """BML's steps on a fat-tree: hosts of an edge switch, then edge switches of a pod, then pods.

    A host has the digits (place on its edge switch, edge switch, pod); class c is summed at host c, and a host's parent
    has the first digit that differs from c's set to c's. With one NIC a server it takes as long as PS, 2(N-1)/N x T_F,
    but less of it passes the upper links.

    Source: BML section 3.3.
    """
    k = topology.params.get("k")
    if topology.family != "fat_tree" or not isinstance(k, int):
        raise SchemeError(
            f"hierarchical goes by the layers of a fat-tree, and {topology.expression} is not one",
            fix="use it on fat_tree(k=...), bml on a BCube, or two_level by racks",
        )
    if topology.host_count != k * (k // 2) ** 2:
        raise SchemeError(
            f"hierarchical goes by all places on edge switches, and {topology.expression} has only the first hosts",
            fix="leave out hosts, or take two_level, which goes by racks",
        )
    return over(topology, digit_trees([k // 2, k // 2, k]))
