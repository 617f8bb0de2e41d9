"""Synchronous training whose sums go the ways that a scheduler plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from testbed.topologies.model import Topology
from testbed.workloads.kinds.fabric.plan import Fabric, Options, check_times, fabric
from testbed.workloads.kinds.fabric_sync.plan import Synchronous


def mlfabric_s(
    topology: Topology,
    tensor_sizes: Sequence[int],  # noqa: ARG001 - every scheme is given them
    *,
    aggregators: int | None = None,
    assign: Literal["random", "fastest"] = "random",
    window: float = 0.1,
    t_lag: float = 0.2,
    root: Literal["server", "random"] = "server",
) -> Fabric:
    """MLfabric-S: synchronous SGD whose gradients a scheduler sums on their way to the server.

    A gradient leaves when it is ready and its turn has come, whoever is still computing. The server adds up what
    arrives, and gives each iteration's sum to all workers, over distributors where that is faster. The hosts and the
    parameters are those of ``mlfabric_a``.

    With ``root=random`` there is no server: each iteration is an AllReduce, whose root is one of the workers, drawn for
    it. The daemon on its host adds up what arrives and gives the sum. It sums nothing else on its way meanwhile.

    Source: MLfabric section 6 (synchronous SGD, MPI) and eq. 16.
    """
    check_times("mlfabric_s", window, t_lag)
    options = Options(staleness=0, assign=assign, window_s=window, lag_s=t_lag, root=root)
    return Synchronous(**vars(fabric(topology, "mlfabric_s", options, aggregators)))
