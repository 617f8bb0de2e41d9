"""ATP: parameter servers, and switches on the way that add what they can."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import ABSENT, ROOT, FixedPoint, Forest
from testbed.workloads.sync.schemes.ps import colocated_servers
from testbed.workloads.sync.trees import DEFAULT_SCALE, DEFAULT_SLOTS, over


def atp(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    servers: int = 1,
    scale: float = DEFAULT_SCALE,
    slots: int = DEFAULT_SLOTS,
) -> Forest:
    """Best-effort in-network aggregation on the way to colocated parameter servers, which add what no switch added.

    A worker's gradient takes its path to the server; the first switch on it that aggregates adds what comes from its
    side and sends the sum on, to the next such switch or the server. The sum comes back the same way. With ``servers``
    above 1 the chunks are divided among that many workers ("key mod number of PSs"). Gradients are multiplied by
    ``scale`` and rounded to integers; ``slots`` chunks fit into a switch. Without switches that aggregate this is
    ``ps(servers=1)``, in integers.

    Source: Lao et al., "ATP: In-network Aggregation for Multi-tenant Learning", NSDI 2021; Rina sections II-C, VI-A4.
    """
    roots = colocated_servers(topology, servers, "atp")
    trees = np.full((len(roots), len(topology.nodes)), ABSENT, dtype=np.int32)
    for c, root in enumerate(roots):
        for host in topology.hosts:
            if host != root:
                _follow(topology, host, root, trees[c])
        trees[c, root] = ROOT
    return over(topology, trees, fixed=FixedPoint(scale, slots))


def _follow(topology: Topology, host: int, root: int, parents: np.ndarray[tuple[int], np.dtype[np.int32]]) -> None:
    """Make each switch that aggregates on the host's path to the root the parent of the node before it."""
    paths = topology.paths(host, root)
    if len(paths) > 1:
        raise SchemeError(
            f"atp adds on the path to a server, and {topology.nodes[host].name} of {topology.expression} has "
            f"{len(paths)} to {topology.nodes[root].name}",
            fix="take a routing with one path, such as fat_tree's by_destination",
        )
    below = host
    for link in paths[0].links[:-1]:
        here = topology.head(link)
        if topology.nodes[here].ina:
            parents[below] = here
            below = here
    parents[below] = root
