"""Plan of an iteration of hybrid training: messages between operators, and AllReduces of groups of servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError
from testbed.topologies.model import Topology
from testbed.workloads.kinds.hybrid.program.layout import Layout, layout
from testbed.workloads.kinds.hybrid.program.steps import Ends, Message, Step, messages, step_s, steps
from testbed.workloads.parallel.network import Network
from testbed.workloads.parallel.operators import FLOAT_BYTES, Model, Operator
from testbed.workloads.parallel.strategy import Holders, Strategy, text
from testbed.workloads.sync.cost import IDEAL, Cost, Shaper, cost_of
from testbed.workloads.sync.flows import Flows, added, flows, partial_sums
from testbed.workloads.sync.flows import pairs as forest_pairs
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.groups import together

Rings = Mapping[Holders, Sequence[Sequence[int]]]
"""Orders in which the rings of an AllReduce group pass its members, by these members. The rings have equal parts of the
gradient."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A plan of hybrid training. Every server is a worker, and its number is its rank: that of its node where the job
    has the whole network.

    Attributes:
        forest: each group's AllReduce, aligned: the groups are in the order of :attr:`layout`.
        rings: those of each group; of one that is not named, both directions of one ring by number.
        messages: all of an iteration, also those that do not leave their server.
        layout: where the groups' gradients lie; what a single server holds comes after them, and is not synchronised.
    """

    kind: ClassVar[str] = "hybrid"
    model: Model
    strategy: Strategy
    forest: Forest
    rings: Rings
    messages: tuple[Message, ...]
    layout: Layout

    @property
    def scheme(self) -> str:
        return self.forest.scheme

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.forest.nodes

    @property
    def workers(self) -> tuple[int, ...]:
        return self.forest.workers

    @property
    def nbytes(self) -> int:
        return self.forest.nbytes

    def built_by(self, scheme: str) -> Plan:
        """Return the same plan with another expression."""
        return replace(self, forest=self.forest.built_by(scheme))

    @property
    def gradient_floats(self) -> int:
        """Floats of all groups' gradients."""
        return int(self.forest.share.sum())

    @cached_property
    def steps(self) -> tuple[tuple[Step, ...], ...]:
        """Steps of each server."""
        ends = Ends(self.messages)
        return tuple(steps(self.model, self.strategy, server, ends) for server in range(len(self.workers)))

    @cached_property
    def paces(self) -> tuple[float, ...]:
        """Share of a whole iteration's pace for which each server computes."""
        return tuple(sum(step_s(self.model, step, 1.0) for step in own) for own in self.steps)

    @property
    def flows(self) -> Flows:
        """Bytes between servers in one iteration, of messages and AllReduces."""
        return added([flows(self.forest, FLOAT_BYTES * self.gradient_floats), self._exchanged])

    @property
    def _exchanged(self) -> Flows:
        """Bytes of messages between nodes."""
        sent = [(self.workers[one.src], self.workers[one.dst], one.bytes) for one in self.messages if not one.is_local]
        ends = np.array([each[:2] for each in sent], dtype=np.int64).reshape(-1, 2)
        return Flows(ends[:, 0], ends[:, 1], np.array([each[2] for each in sent], dtype=np.float64))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All (sender, receiver), each once, sorted."""
        sent = {(src, dst) for src, dst, _ in self._exchanged}
        return sorted(sent.union(forest_pairs(self.forest)))

    def cost(self, topology: Topology) -> HybridCost:
        """Compute the cost of one iteration; ``rounds`` are those of the AllReduces.

        Raises:
            TopologyError: two servers that send each other something have no route.
        """
        sums = flows(self.forest, FLOAT_BYTES * self.gradient_floats)
        tails = [topology.tail(link) for link in range(2 * len(topology.links))]
        return HybridCost(
            **vars(cost_of(self.flows, self.forest, topology)),
            reduced_bytes=cost_of(sums, self.forest, topology).link_bytes,
            own_bytes=_own_bytes(self.flows, topology),
            own_sum_bytes=_own_bytes(sums, topology),
            partial_bytes=_own_bytes(partial_sums(self.forest, FLOAT_BYTES * self.gradient_floats), topology),
            tails=np.array(tails),
            servers=np.array(self.workers),
        )


@dataclass(frozen=True, eq=False)
class HybridCost(Cost):
    """Cost of an iteration: bytes are those of messages and AllReduces, GST is that of the AllReduces.

    Attributes:
        reduced_bytes: float64[2 x links], those of AllReduces alone.
        own_bytes: float64[2 x links], what the server where a link begins sends itself, and does not forward.
        own_sum_bytes: of them, those of AllReduces, and ``partial_bytes``, those up their trees.
        tails: int64[2 x links], the node where each link begins.
        servers: int64[n], their nodes, by rank.
    """

    reduced_bytes: NDArray[np.float64]
    own_bytes: NDArray[np.float64]
    own_sum_bytes: NDArray[np.float64]
    partial_bytes: NDArray[np.float64]
    tails: NDArray[np.int64]
    servers: NDArray[np.int64]

    @property
    def late_bytes(self) -> NDArray[np.float64]:
        """Bytes of AllReduces, which leave when the gradients are ready: all messages are sent before."""
        return self.reduced_bytes

    def least_jct_s(self, shaper: Shaper, pace_s: NDArray[np.float64]) -> float:
        """Return the largest of three lower bounds (s); ``pace_s`` is float64[n, iterations], for how long each server
        computes.

        - *The server that ends an iteration last*, at E, begins the next one then. It computes before it has its
          gradients, and all that it sends in AllReduces has its own gradient in it. Its messages leave after E, too,
          and somebody needs each of them and of the sums before the next iteration ends everywhere. So the
          iteration takes at least max(pace, messages) + AllReduces of that server, on the busiest of its links:
          of all servers the least, as any may be the last.
        - *Any one server* computes, and its gradient must leave, in a partial sum, before it gets the sum. In the
          meantime it may pass on sums of the iteration before, which only others wait for.
        - *Any one link* carries the messages and sums of all iterations.
        """
        sums_s, whole_s = self._own_s(shaper, self.own_sum_bytes), self._own_s(shaper, self.own_bytes)
        last_s = np.maximum(pace_s + sums_s[:, None], whole_s[:, None]).min(axis=0).sum()
        alone_s = (pace_s + self._own_s(shaper, self.partial_bytes)[:, None]).sum(axis=1).max()
        links_s = shaper.least_s(pace_s.shape[1] * self.link_bytes, self.link_rate_bps).max(initial=0.0)
        return float(max(last_s, alone_s, links_s))

    def _own_s(self, shaper: Shaper, own_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64[n]: how long (s) each server's busiest link takes for so many bytes."""
        found = np.zeros(int(self.tails.max()) + 1)
        np.maximum.at(found, self.tails, shaper.least_s(own_bytes, self.link_rate_bps))
        return found[self.servers]


@dataclass(frozen=True, eq=False)
class ReconfiguredCost(HybridCost):
    """Cost over circuits that moved meanwhile. Each server has still to send its own bytes over its own links, whatever
    they are joined with."""

    moved: ClassVar[bool] = True

    def bound_s(self, shaper: Shaper = IDEAL) -> float:
        return float(self._own_s(shaper, self.own_sum_bytes).max(initial=0.0))

    def _own_s(self, shaper: Shaper, own_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64[n]: how long (s) the links of each server take, if each carries as much."""
        links = np.maximum(1, np.bincount(self.tails))
        sent_bytes = np.bincount(self.tails, own_bytes) / links
        mean_bps = np.bincount(self.tails, self.link_rate_bps) / links
        found: NDArray[np.float64] = shaper.least_s(sent_bytes[self.servers], mean_bps[self.servers])
        return found


def _own_bytes(sent: Flows, topology: Topology) -> NDArray[np.float64]:
    """Return float64[2 x links]: bytes on the first link of their ways."""
    found = np.zeros(2 * len(topology.links))
    for src, dst, count in sent:
        for path in topology.paths(src, dst):
            found[path.links[0]] += count * path.weight
    return found


def plan(
    topology: Topology,
    model: Model,
    strategy: Strategy,
    rings: Rings | None = None,
) -> Plan:
    """Make the plan; ``rings`` are those of groups (:attr:`Plan.rings`).

    Raises:
        SpecError: the strategy is for another number of servers, or no two servers hold the same operator.
    """
    if strategy.servers != topology.host_count:
        raise SpecError(
            f"the strategy is for {strategy.servers} servers, and {topology.expression} has {topology.host_count}",
            fix="give a strategy for this network's hosts",
        )
    where = layout(model, strategy)
    if not where.groups:
        raise SpecError(
            f"{model.name}: under strategy {text(model, strategy)} no two servers hold the same operator, so nothing "
            "is synchronised",
            fix="let several servers hold an operator, such as rest: all",
        )
    network = Network(topology, rings)
    parts = [(network.forest(members), stop - start) for members, (start, stop) in where.groups.items()]
    forest = together(topology, parts, aligned=True, workers=topology.hosts)
    return Plan(model, strategy, forest, network.rings, messages(model, strategy), where)


def told(plan: Plan) -> dict[str, Any]:
    """Return all of a plan but its forest, as JSON."""
    model = plan.model
    return {
        "model": {"name": model.name, "samples": model.samples, "operators": [asdict(one) for one in model.operators]},
        "holders": plan.strategy.holders,
        "rings": [[members, [list(order) for order in orders]] for members, orders in plan.rings.items()],
    }


def rebuilt(told: Mapping[str, Any], forest: Forest) -> Plan:
    """Rebuild the plan that :func:`told` took apart."""
    operators = tuple(
        Operator(**{**one, "inputs": tuple(one["inputs"]), "tensors": tuple(one["tensors"])})
        for one in told["model"]["operators"]
    )
    model = Model(told["model"]["name"], operators, told["model"]["samples"])
    strategy = Strategy(len(forest.workers), tuple(map(tuple, told["holders"])))
    rings = {tuple(members): orders for members, orders in told["rings"]}
    return Plan(model, strategy, forest, rings, messages(model, strategy), layout(model, strategy))
