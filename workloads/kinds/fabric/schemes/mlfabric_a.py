"""Asynchronous training whose transfers are scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from topologies.model import Topology
from workloads.kinds.fabric.plan import Fabric, Options, check_bounds, fabric


def mlfabric_a(
    topology: Topology,
    tensor_sizes: Sequence[int],  # noqa: ARG001 - every scheme is given them
    *,
    delay_bound: int = 30,
    aggregators: int | None = None,
    assign: Literal["random", "fastest"] = "random",
    window: float = 0.1,
    t_lag: float = 0.2,
) -> Fabric:
    """MLfabric-A: asynchronous SGD whose updates a scheduler orders, sums on their way, and drops.

    The last host schedules, and the one before it serves. Each worker's host runs a daemon that sends, sums and passes
    on while the worker computes. An update takes the place that the scheduler gives it; one that would come after
    ``delay_bound`` or more others than its weights had seen is dropped. ``aggregators`` daemons, a fifth of the workers
    if not given, sum updates of others on their way to the server, and pass weights on. ``assign`` says which of them
    takes the next group: a random one, or the one with the fastest link. Updates are planned together that become ready
    within a ``window`` (s). The scheduler learns of links' rates ``t_lag`` (s) late.

    As with ``async_ps``, a gradient counts 1/N, and ``iterations`` times N updates are computed in all; one that is
    dropped counts among them.

    Source: MLfabric sections 3 to 5 and 10.3 (Viswanathan and Akella).
    """
    check_bounds("mlfabric_a", delay_bound, window, t_lag)
    options = Options(delay_bound=delay_bound, assign=assign, window_s=window, lag_s=t_lag)
    return fabric(topology, "mlfabric_a", options, aggregators)
