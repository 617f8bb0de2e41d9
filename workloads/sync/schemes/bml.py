"""BML on BCube(n,k): k x N classes <t,q>, each along a tree that sets one digit of the server's number a step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.trees import digit_trees, over


def bml(topology: Topology, tensor_sizes: Sequence[int]) -> Forest:
    """Digit-correcting trees of BCube(n,k): k threads, each with one piece per server.

    Server s = [v_{k-1}, ..., v_0] has the index sum(v_i n^i); its NIC i leads to a level-i switch. Class <t,q>, at row
    t N + q, is summed at q: a server's parent has the first digit that differs from q's, in the order t, t+1, ...
    (mod k), set to q's, so thread t's step w uses level (t + w) mod k only and the k threads never share a NIC. The sum
    goes back along the same edges. GST >= 2(N-1)/(kN) x T_F.

    Source: BML section 3.2, Algorithm 1 (CheckDigits).
    """
    n, k = _bcube_parameters(topology)
    threads = [digit_trees([n] * k, [(thread + step) % k for step in range(k)]) for thread in range(k)]
    return over(topology, np.concatenate(threads))


def _bcube_parameters(topology: Topology) -> tuple[int, int]:
    """Return (n, k), from the family's parameters."""
    n, k = topology.params.get("n"), topology.params.get("k")
    if topology.family != "bcube" or not isinstance(n, int) or not isinstance(k, int):
        raise SchemeError(
            f"bml needs a BCube, and {topology.expression} is not one",
            fix="use it on bcube(n=...,k=...), or take ps or ring here",
        )
    return n, k
