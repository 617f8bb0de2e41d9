"""BML on BCube(n,k): k x N classes <t,q>, each along a tree that sets one digit of the server's number a step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from testbed.errors import SchemeError
from topologies.model import Topology
from workloads.sync.forest import ABSENT, ROOT, Forest


def bml(topology: Topology, tensor_sizes: Sequence[int]) -> Forest:
    """Digit-correcting trees of BCube(n,k): k threads, each with one piece per server.

    Server s = [v_{k-1}, ..., v_0] has the index sum(v_i n^i); its NIC i leads to a level-i switch. Class <t,q>, at row
    t N + q, is summed at q: a server's parent has the first digit that differs from q's, in the order t, t+1, ...
    (mod k), set to q's, so thread t's step w uses level (t + w) mod k only and the k threads never share a NIC. The sum
    goes back along the same edges. GST >= 2(N-1)/(kN) x T_F.

    Source: BML section 3.2, Algorithm 1 (CheckDigits).
    """
    del tensor_sizes  # equal shares, whatever the tensors are
    n, k = _bcube_parameters(topology)
    parents = np.concatenate([_thread_parents(n, k, thread) for thread in range(k)])
    trees = np.full((len(parents), len(topology.nodes)), ABSENT, dtype=np.int32)
    trees[:, : n**k] = parents
    return Forest(
        scheme="bml",
        nodes=tuple(node.name for node in topology.nodes),
        workers=tuple(topology.hosts),
        share=np.ones(len(parents), dtype=np.int64),
        reduce=trees,
        broadcast=trees,
    )


def _bcube_parameters(topology: Topology) -> tuple[int, int]:
    """(n, k), from the family's parameters."""
    n, k = topology.params.get("n"), topology.params.get("k")
    if topology.family != "bcube" or not isinstance(n, int) or not isinstance(k, int):
        raise SchemeError(
            f"bml corrects digits of BCube servers, and {topology.expression} is not a BCube",
            fix="use it on bcube(n=...,k=...), or take ps or ring here",
        )
    return n, k


def _thread_parents(n: int, k: int, thread: int) -> NDArray[np.int32]:
    """int32[N, N]: row q, column s is the parent of server s in the tree of <thread, q>."""
    server = np.arange(n**k, dtype=np.int32)
    parents = np.full((n**k, n**k), ROOT, dtype=np.int32)
    # The last digit in the order is written first, so that an earlier one that differs overwrites it.
    for digit in [(thread + step) % k for step in reversed(range(k))]:
        weight = n**digit
        value = server // weight % n
        correction = ((value[:, None] - value[None, :]) * weight).astype(np.int32)
        np.copyto(parents, server[None, :] + correction, where=correction != 0)
    return parents
