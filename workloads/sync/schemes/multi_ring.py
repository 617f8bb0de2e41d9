"""Several rings at once, each over its own order of the hosts and with its own part of the gradient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.base.errors import SchemeError
from topologies.model import Topology
from workloads.sync.forest import Forest
from workloads.sync.trees import along, chains, over


def multi_ring(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    strides: tuple[int, ...] = (),
    permutations: tuple[tuple[int, ...], ...] = (),
) -> Forest:
    """A ring per stride or permutation, with the same share of the gradient each.

    ``multi_ring(strides=[1,5,7,11])``: in ring p each host is followed by the one p further on (mod N), which passes
    every host exactly where p and N are coprime (TotientPerms). ``multi_ring(permutations=[[0,1,2],[0,2,1]])``: each
    ring in the order given. Class r N + c is the chain of ring r that ends at host c.

    Source: TopoOpt, TotientPerms in TopologyFinder, and Appendix C.
    """
    del tensor_sizes  # equal shares, whatever the tensors are
    if bool(strides) == bool(permutations):
        raise SchemeError(
            "multi_ring takes either strides or permutations", fix="write it as multi_ring(strides=[1,5]), for example"
        )
    orders = [along(topology, "multi_ring", stride) for stride in strides] + [
        _given(topology, one) for one in permutations
    ]
    forward = np.concatenate([chains(order) for order in orders])
    return over(topology, forward, np.concatenate([chains(order[::-1]) for order in orders]))


def _given(topology: Topology, order: Sequence[int]) -> list[int]:
    if sorted(order) != list(topology.hosts):
        raise SchemeError(
            f"multi_ring: a permutation of {len(order)} hosts does not name each host of {topology.expression} once",
            fix=f"order 0 to {topology.host_count - 1}",
        )
    return list(order)
