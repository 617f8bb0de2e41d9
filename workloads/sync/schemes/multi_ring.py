"""Several rings at once, each over its own order of the hosts and with its own part of the gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from testbed.base.errors import SchemeError
from testbed.base.listing import shortened
from topologies.model import Topology
from workloads.sync.forest import Forest
from workloads.sync.trees import chains, over


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
    orders = [_along(topology, stride) for stride in strides] + [_given(topology, one) for one in permutations]
    forward = np.concatenate([chains(order) for order in orders])
    return over(topology, forward, np.concatenate([chains(order[::-1]) for order in orders]))


def _along(topology: Topology, stride: int) -> list[int]:
    count = topology.host_count
    if math.gcd(stride, count) != 1:
        coprime = [str(p) for p in range(1, count) if math.gcd(p, count) == 1]
        raise SchemeError(
            f"multi_ring: with the stride {stride} a ring misses some of the {count} hosts of {topology.expression}",
            fix=f"take strides that are coprime to {count}: {shortened(coprime, 8)}",
        )
    return [place * stride % count for place in topology.hosts]


def _given(topology: Topology, order: Sequence[int]) -> list[int]:
    if sorted(order) != list(topology.hosts):
        raise SchemeError(
            f"multi_ring: a permutation of {len(order)} hosts does not name each host of {topology.expression} once",
            fix=f"order 0 to {topology.host_count - 1}",
        )
    return list(order)
