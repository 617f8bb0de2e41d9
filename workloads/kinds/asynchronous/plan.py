"""Forests of schemes whose workers do not wait for a sum: their servers, and the cost of an update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from testbed.base.errors import SchemeError
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import IDEAL, Cost, Shaper, cost_of_flows
from testbed.workloads.sync.flows import Flows, flows
from testbed.workloads.sync.forest import ABSENT, ROOT, Forest
from testbed.workloads.sync.verify import refusal

Steps = tuple[tuple[float, float], ...]
"""Sends that follow one another: for each its bytes, and the rate (bit/s) at which they go."""


@dataclass(frozen=True)
class Asynchronous:
    """Mark of a forest whose workers do not wait for a sum: the root changes its weights by each gradient as it comes,
    and gives that worker the newest ones back (:mod:`testbed.workloads.kinds.asynchronous.parameter_server`). The trees
    then say which node sends what to which, and the cost of a synchronisation is that of as many updates as there are
    workers. Each class is the part of the weights that its root has.

    Attributes:
        staleness: how many iterations a worker may be ahead of the slowest one (SSP); None for any number.
        replicas: the node to which each server sends updates on before it applies them (chain replication); none for
            none.
    """

    kind: ClassVar[str] = "asynchronous"
    staleness: int | None
    replicas: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "replicas", tuple(self.replicas))  # JSON has lists


@dataclass(frozen=True, eq=False)
class UpdatesCost(Cost):
    """Cost of as many updates as there are workers.

    Attributes:
        alone: what the nearest worker's update takes at least when nobody else sends, as sequences of which each must
            end before the update does: of each step its bytes, and the rate (bit/s) at which they go.
    """

    alone: tuple[Steps, ...]

    def bound_s(self, shaper: Shaper = IDEAL) -> float:
        """Return a lower bound of GST: the time (s) that an update takes alone."""
        return max(_least_s(steps, shaper) for steps in self.alone)


def staleness(forest: Forest) -> int | None:
    """Return how many iterations a worker may be ahead of the slowest one; None for any number."""
    assert isinstance(forest.run_by, Asynchronous)
    return forest.run_by.staleness


def servers(forest: Forest) -> list[int]:
    """List the nodes that serve, in the order of their parts of the weights."""
    roots: list[int] = np.argmax(forest.reduce == ROOT, axis=1).tolist()
    return roots


def replicas(forest: Forest) -> dict[int, int]:
    """Return the replica of each server that has one."""
    assert isinstance(forest.run_by, Asynchronous)
    return dict(zip(servers(forest), forest.run_by.replicas, strict=False))


def cost(
    forest: Forest, topology: Topology, gradient_bytes: float, updates: Sequence[float] | None = None
) -> UpdatesCost:
    """Compute the cost of as many updates as workers; ``updates`` is how many of them each rank makes, None for one
    each."""
    made = np.ones(len(forest.nodes))
    if updates is not None:
        made[list(forest.workers)] = updates
    traffic = flows(forest, gradient_bytes)
    traffic = replace(traffic, count_bytes=traffic.count_bytes * made[traffic.senders] * made[traffic.receivers])
    part_bytes = made[list(forest.workers)].sum() * gradient_bytes / len(servers(forest))
    replicated = replicas(forest)
    traffic = _with(traffic, [(*pair, part_bytes) for pair in replicated.items()])
    along = cost_of_flows(traffic, topology, rounds=3 if replicated else 2)
    return UpdatesCost(**vars(along), alone=_alone(forest, topology, gradient_bytes))


def _with(traffic: Flows, others: Sequence[tuple[int, int, float]]) -> Flows:
    """Add flows between other pairs of nodes."""
    every = sorted([*traffic, *others])
    senders, receivers, count_bytes = zip(*every, strict=True)
    return Flows(np.array(senders), np.array(receivers), np.array(count_bytes, np.float64))


def _alone(forest: Forest, topology: Topology, gradient_bytes: float) -> tuple[Steps, ...]:
    """Return the steps of an update of the worker whose ways to and from the servers are fastest."""
    ways = (_update(forest, topology, gradient_bytes, worker) for worker in forest.workers)
    return min(ways, key=lambda update: max(_least_s(steps, IDEAL) for steps in update))


def _update(forest: Forest, topology: Topology, gradient_bytes: float, worker: int) -> tuple[Steps, ...]:
    """Return the steps of one worker's update when nobody else sends. A server's weights contain the update, so they
    leave when all of the gradient's part for it is there, and at its replica. So each part goes there and back, one
    after the other; and the worker's own links carry all parts of the gradient before the last part of the weights can
    leave, and all parts of the weights after the first part of the gradient is there."""
    served = servers(forest)
    part_bytes = gradient_bytes / len(served)
    up = [(part_bytes, _rate_bps(topology, worker, server)) for server in served]
    down = [(part_bytes, _rate_bps(topology, server, worker)) for server in served]
    replicated = replicas(forest)
    on = [[(part_bytes, _rate_bps(topology, one, replicated[one]))] if one in replicated else [] for one in served]
    each = tuple((there, *further, back) for there, further, back in zip(up, on, down, strict=True))
    if len(served) == 1:
        return each
    out = _over_nics(topology, [(worker, server) for server in served], worker, gradient_bytes)
    into = _over_nics(topology, [(server, worker) for server in served], worker, gradient_bytes)
    fastest_up, fastest_down = (max(ways, key=lambda way: way[1]) for ways in (up, down))
    further = max(on, key=lambda ways: ways[0][1] if ways else 0.0)
    return (
        *each,
        (out, *further, fastest_down),
        (fastest_up, *further, into),
    )


def _least_s(steps: Steps, shaper: Shaper) -> float:
    count, rate_bps = np.array(steps).T
    return float(shaper.least_s(count, rate_bps).sum())


def _rate_bps(topology: Topology, src: int, dst: int) -> float:
    """Return the rate of the fastest path, which is that of its slowest link."""
    return float(
        max(min(topology.links[link // 2].rate_bps for link in path.links) for path in topology.paths(src, dst))
    )


def _over_nics(
    topology: Topology, ways: Sequence[tuple[int, int]], node: int, count_bytes: float
) -> tuple[float, float]:
    """Return (bytes, bit/s) of each of a node's links that these ways use, if they share so many bytes evenly."""
    paths = [path for src, dst in ways for path in topology.paths(src, dst)]
    used = {link // 2 for path in paths for link in path.links}
    own = [topology.links[link] for link in used if node in (topology.links[link].a, topology.links[link].b)]
    return count_bytes / len(own), sum(link.rate_bps for link in own) / len(own)


def check_servers(forest: Forest) -> None:
    """Return only if the forest consists of servers, none of them a worker, with equal parts of the weights, and every
    worker sends to all of them and gets weights from all.

    Raises:
        SchemeError: it is not.
    """
    served = servers(forest)
    if forest.aligned or forest.fixed is not None or len({*forest.share.tolist()}) > 1 or len({*served}) < len(served):
        raise SchemeError(
            f"scheme {forest.scheme} is asynchronous, so each server has one equal part of the weights, of floats",
            fix="give it one class for each server, equal shares, no aligned, and no fixed",
        )
    for number, server in enumerate(served):
        others = [node for node in range(len(forest.nodes)) if node != server]
        wanted = [server if node in forest.workers else ABSENT for node in others]
        stars = all(trees[number, others].tolist() == wanted for trees in (forest.reduce, forest.broadcast))
        if server in forest.workers or not stars:
            problem = (
                f"it is asynchronous, and not every worker sends straight to {forest.nodes[server]}, to serve only"
            )
            raise refusal(forest, number, problem, "make both trees a star of the workers at a host that is none")
    _check_replicas(forest, served)


def _check_replicas(forest: Forest, served: Sequence[int]) -> None:
    """Check that there are no replicas, or one for each server, at hosts that do nothing else."""
    assert isinstance(forest.run_by, Asynchronous)
    found = forest.run_by.replicas
    hosts = {*range(len(forest.nodes))} - {*forest.workers, *served}
    if found and not (len(found) == len(served) == len({*found}) and hosts.issuperset(found)):
        raise SchemeError(
            f"scheme {forest.scheme} has {len(served)} servers and replicas at nodes {', '.join(map(str, found))}",
            fix="give each server a replica at a host of its own that neither works nor serves",
        )
