"""Asynchronous training whose transfers are scheduled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.fabric.plan import (
    Fabric,
    Options,
    check_delay_bound,
    check_divergence,
    check_times,
    fabric,
)
from testbed.workloads.learning import parts


def mlfabric_a(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    delay_bound: int = 30,
    aggregators: int | None = None,
    assign: Literal["random", "fastest"] = "random",
    window: float = 0.1,
    t_lag: float = 0.2,
    rate: Literal["constant", "worst_case", "adaptive"] = "constant",
    c: float = 1.0,
    divergence_bound: float | None = None,
    divergence_updates: int | None = None,
    replica_aggregators: int | None = None,
    servers: int = 1,
) -> Fabric:
    """MLfabric-A: asynchronous SGD whose updates a scheduler orders, sums on their way, and drops.

    The last host schedules, and the one before it serves. Each worker's host runs a daemon that sends, sums and passes
    on while the worker computes. An update takes the place that the scheduler gives it; one that would come after
    ``delay_bound`` or more others than its weights had seen is dropped. ``aggregators`` daemons, a fifth of the workers
    if not given, sum updates of others on their way to the server, and pass weights on. ``assign`` says which of them
    takes the next group: a random one, or the one with the fastest link. Updates are planned together that become ready
    within a ``window`` (s). The scheduler learns of links' rates ``t_lag`` (s) late. ``rate`` makes the learning rate
    of an update from the workload's: ``worst_case`` divides it by the square root of ``delay_bound`` times the number
    of updates so far; ``adaptive`` is 1 / (1 / learning_rate + c sqrt(t + tau)), for the update number t that missed
    tau others.

    With ``divergence_bound`` or ``divergence_updates`` the host between server and scheduler has a replica of the
    weights. Daemons send it each update, too, and the server never applies one that would take its weights further from
    the replica's than the bound: a distance, or a number of updates. ``replica_aggregators`` daemons, a fifth of the
    workers if not given, sum on the way there; none of them sums for the server.

    With several ``servers``, the hosts before the scheduler's, each has a shard of the weights: as many floats, one
    after the other. All of them apply the updates in one order, an update when all of its shards are there. A worker
    gets one version of all shards. Only a single server can have a replica.

    As with ``async_ps``, a gradient counts 1/N, and ``iterations`` times N updates are computed in all; one that is
    dropped counts among them.

    Source: MLfabric sections 3 to 5, 10.2 and 10.3 (Viswanathan and Akella).
    """
    check_delay_bound("mlfabric_a", delay_bound)
    parts.check("mlfabric_a", servers, tensor_sizes)
    check_times("mlfabric_a", window, t_lag)
    if not 0 < c < math.inf:
        raise SchemeError(f"mlfabric_a has c of {c:g}", fix="give c above 0")
    check_divergence("mlfabric_a", divergence_bound, divergence_updates)
    options = Options(delay_bound, None, window, t_lag, assign, rate, c, divergence_bound, divergence_updates)
    return fabric(topology, "mlfabric_a", options, aggregators, replica_aggregators, servers)
