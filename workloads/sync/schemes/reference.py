"""The common part of schemes that other people's libraries run: their requirements, and the forests they are compared
with."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes.ring import ring
from testbed.workloads.sync.schemes.two_level import two_level


def cheapest(topology: Topology, tensor_sizes: Sequence[int]) -> Forest:
    """Return the forest with the lower bound, of a ring and, where hosts are in racks, 2LHA.

    Behind one NIC a host no sum takes less than a ring: 2(N-1)/N of the gradient in and out (Patarasuk, Yuan 2009,
    section 3). Where links between racks are the scarce ones, 2LHA crosses them less.
    """
    candidates = [ring(topology, tensor_sizes)]
    if all(topology.nodes[host].rack is not None for host in topology.hosts):
        candidates.append(two_level(topology, tensor_sizes))
    return min(candidates, key=lambda forest: cost(forest, topology, 1.0).bound_s())


def one_nic(scheme: str, topology: Topology) -> None:
    """
    Raises:
        SchemeError: a host has several NICs, of which the library would use one.
    """
    for host in topology.hosts:
        count = len(topology.ports[host])
        if count > 1:
            name = topology.nodes[host].name
            raise SchemeError(
                f"{scheme} uses one NIC of a host, and {name} of {topology.expression} has {count}",
                fix="use it where each host has one, such as star, fat_tree or spine_leaf",
            )
