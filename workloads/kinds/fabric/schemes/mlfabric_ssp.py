"""Stale synchronous training whose transfers are scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.fabric.plan import Fabric, Options, check_times, fabric
from testbed.workloads.learning import parts


def mlfabric_ssp(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    staleness: int = 2,
    aggregators: int | None = None,
    assign: Literal["random", "fastest"] = "random",
    window: float = 0.1,
    t_lag: float = 0.2,
    servers: int = 1,
) -> Fabric:
    """Stale synchronous SGD whose updates a scheduler orders and sums on their way, as mlfabric_a does.

    No worker begins an iteration that is more than ``staleness`` ahead of the slowest worker's; until then its weights
    are held back. No update is dropped, unless a link on its way carries nothing when it is planned. The other
    parameters are those of ``mlfabric_a``.

    Source: MLfabric section 6 (stale synchronous SGD); Ho et al., NIPS 2013, section 2.
    """
    if staleness < 0:
        raise SchemeError(f"mlfabric_ssp has a staleness of {staleness}", fix="give staleness 0 or more, in iterations")
    parts.check("mlfabric_ssp", servers, tensor_sizes)
    check_times("mlfabric_ssp", window, t_lag)
    options = Options(staleness=staleness, assign=assign, window_s=window, lag_s=t_lag)
    return fabric(topology, "mlfabric_ssp", options, aggregators, servers=servers)
