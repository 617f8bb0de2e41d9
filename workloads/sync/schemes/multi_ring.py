"""Several rings at once, each over its own order of the hosts and with its own part of the gradient."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.groups import check_members, together
from testbed.workloads.sync.trees import along, rings


def multi_ring(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    strides: tuple[int, ...] = (),
    permutations: tuple[tuple[int, ...], ...] = (),
    members: tuple[tuple[int, ...], ...] = (),
) -> Forest:
    """A ring per stride or permutation, with the same share of the gradient each.

    ``multi_ring(strides=[1,5,7,11])``: in ring p each host is followed by the one p further on (mod N), which passes
    every host exactly where p and N are coprime (TotientPerms). ``multi_ring(permutations=[[0,1,2],[0,2,1]])``: each
    ring in the order given. Class r N + c is the chain of ring r that ends at host c.

    ``multi_ring(strides=[1,3],members=[[0,1,2,3],[2,3,4,5]])``: rings of these strides in each group of hosts, all
    groups at once. Each has an equal part of the gradient, which only its members sum, so a profile can be played, and
    no model trained.

    Source: TopoOpt, TotientPerms in TopologyFinder, and Appendix C.
    """
    if bool(strides) == bool(permutations):
        raise SchemeError(
            "multi_ring takes either strides or permutations", fix="write it as multi_ring(strides=[1,5]), for example"
        )
    if members:
        return _in_groups(topology, strides, members)
    orders = [along(topology, "multi_ring", stride) for stride in strides] + [
        _given(topology, one) for one in permutations
    ]
    return rings(topology, orders)


def _in_groups(topology: Topology, strides: Sequence[int], members: Sequence[Sequence[int]]) -> Forest:
    if not strides:
        raise SchemeError(
            "multi_ring takes no permutations of groups of hosts",
            fix="write multi_ring(strides=[1,3],members=...), or ring(members=...), whose groups have an order",
        )
    check_members(topology, "multi_ring", members)
    groups = [[along(topology, "multi_ring", stride, group) for stride in strides] for group in members]
    return together(topology, [(rings(topology, orders), 1) for orders in groups])


def _given(topology: Topology, order: Sequence[int]) -> list[int]:
    if sorted(order) != list(topology.hosts):
        raise SchemeError(
            f"multi_ring: a permutation of {len(order)} hosts does not name each host of {topology.expression} once",
            fix=f"order 0 to {topology.host_count - 1}",
        )
    return list(order)
