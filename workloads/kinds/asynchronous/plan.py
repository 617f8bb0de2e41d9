"""A forest in which nobody waits for a sum: one server, and what an update takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from testbed.base.errors import SchemeError
from topologies.model import Topology
from workloads.sync.cost import IDEAL, Cost, Shaper
from workloads.sync.cost import cost_of as cost_along
from workloads.sync.flows import flows
from workloads.sync.forest import ABSENT, ROOT, Forest
from workloads.sync.verify import refusal


@dataclass(frozen=True)
class Asynchronous:
    """Nobody waits for a sum: the root changes its weights by each gradient as it comes, and gives that worker the
    newest ones back (:mod:`workloads.kinds.asynchronous.parameter_server`). The trees then say who sends what to whom,
    and as much as a synchronisation takes is what as many updates as there are workers take.

    Attributes:
        staleness: how many iterations a worker may be ahead of the slowest one (SSP); None for any number.
    """

    kind: ClassVar[str] = "asynchronous"
    staleness: int | None


@dataclass(frozen=True, eq=False)
class UpdatesCost(Cost):
    """What as many updates as workers cost.

    Attributes:
        alone: (bytes, rate in bit/s) of each way of the nearest worker's update when nobody else sends: its gradient
            there, and then weights back.
    """

    alone: tuple[tuple[float, float], ...]

    def bound_s(self, shaper: Shaper = IDEAL) -> float:
        """Lower bound of GST: what an update takes alone."""
        count, rate_bps = np.array(self.alone).T
        return float(shaper.least_s(count, rate_bps).sum())


def staleness(forest: Forest) -> int | None:
    """How many iterations a worker may be ahead of the slowest one; None for any number."""
    assert isinstance(forest.run_by, Asynchronous)
    return forest.run_by.staleness


def cost(
    forest: Forest, topology: Topology, gradient_bytes: float, updates: Sequence[float] | None = None
) -> UpdatesCost:
    """Cost of as many updates as workers; ``updates`` is how many of them each rank makes, None for one."""
    traffic = flows(forest, gradient_bytes)
    if updates is not None:
        made = np.ones(len(forest.nodes))
        made[list(forest.workers)] = updates
        times = made[traffic.senders] * made[traffic.receivers]
        traffic = replace(traffic, count_bytes=traffic.count_bytes * times)
    return UpdatesCost(**vars(cost_along(traffic, forest, topology)), alone=_alone(forest, topology, gradient_bytes))


def _alone(forest: Forest, topology: Topology, gradient_bytes: float) -> tuple[tuple[float, float], ...]:
    """The update of the worker whose ways to and from the server are fastest.

    Weights contain the update, so they leave when all of the gradient is there.
    """
    server = int(np.argmax(forest.reduce[0] == ROOT))
    ways = (((worker, server), (server, worker)) for worker in forest.workers)
    updates = (tuple((gradient_bytes, float(_rate_bps(topology, *way))) for way in both) for both in ways)
    return min(updates, key=lambda update: sum(count / rate_bps for count, rate_bps in update))


def _rate_bps(topology: Topology, src: int, dst: int) -> int:
    """Of the fastest path, whose rate is its slowest link's."""
    return max(min(topology.links[link // 2].rate_bps for link in path.links) for path in topology.paths(src, dst))


def check_server(forest: Forest) -> None:
    """Return only if the forest is one server, no worker, which every worker sends to and gets from.

    Raises:
        SchemeError: it is not.
    """
    if forest.classes != 1 or forest.fixed is not None:
        raise SchemeError(
            f"scheme {forest.scheme} is asynchronous, and whole gradients of floats go to one server",
            fix="give it one class, and no fixed",
        )
    server = int(np.argmax(forest.reduce[0] == ROOT))
    others = [node for node in range(len(forest.nodes)) if node != server]
    wanted = [server if node in forest.workers else ABSENT for node in others]
    stars = all(trees[0, others].tolist() == wanted for trees in (forest.reduce, forest.broadcast))
    if server in forest.workers or not stars:
        problem = f"it is asynchronous, and not every worker sends straight to {forest.nodes[server]}, to serve only"
        raise refusal(forest, 0, problem, "make both trees a star of the workers at a host that is none")
