"""What moves in an iteration of hybrid training: messages between operators, and AllReduces of groups of servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from testbed.base.errors import SpecError
from topologies.model import Topology
from workloads.kinds.hybrid.program.cut import Message, messages
from workloads.kinds.hybrid.program.layout import Layout, layout
from workloads.parallel.network import Network
from workloads.parallel.operators import FLOAT_BYTES, Model
from workloads.parallel.strategy import Holders, Strategy, text
from workloads.sync.cost import Cost, cost_of
from workloads.sync.flows import Flows, added, flows
from workloads.sync.flows import pairs as forest_pairs
from workloads.sync.forest import Forest
from workloads.sync.groups import together


@dataclass(frozen=True, eq=False)
class Plan:
    """Every server is a worker.

    Attributes:
        forest: each group's AllReduce, aligned: the groups are in the order of :attr:`layout`.
        messages: all of an iteration, also those that do not leave their server.
        layout: where the groups' gradients lie; what a single server holds comes after them, and is not synchronised.
    """

    model: Model
    strategy: Strategy
    forest: Forest
    messages: tuple[Message, ...]
    layout: Layout

    @property
    def gradient_floats(self) -> int:
        """Of all groups."""
        return int(self.forest.share.sum())

    @property
    def flows(self) -> Flows:
        """Bytes between servers in one iteration, messages and AllReduces."""
        return added([flows(self.forest, FLOAT_BYTES * self.gradient_floats), _exchanged(self.messages)])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Each (sender, receiver) once, sorted."""
        sent = {(message.src, message.dst) for message in self.messages if not message.is_local}
        return sorted(sent.union(forest_pairs(self.forest)))

    def neighbours(self, server: int) -> list[int]:
        """Those that a server has a connection with, sorted."""
        return sorted({src + dst - server for src, dst in self.pairs if server in (src, dst)})

    def cost(self, topology: Topology) -> Cost:
        """Of one iteration; ``rounds`` are those of the AllReduces.

        Raises:
            TopologyError: two servers that send each other something have no route.
        """
        return cost_of(self.flows, self.forest, topology)


def plan(
    topology: Topology,
    model: Model,
    strategy: Strategy,
    rings: Mapping[Holders, Sequence[Sequence[int]]] | None = None,
) -> Plan:
    """``rings`` are those of each group (:class:`workloads.parallel.network.Network`).

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
            f"{model.name}: under strategy {text(model, strategy)} no two servers hold one operator, so nothing is "
            "synchronised",
            fix="let several servers hold an operator, such as rest: all",
        )
    network = Network(topology, rings)
    parts = [(network.forest(members), stop - start) for members, (start, stop) in where.groups.items()]
    forest = together(topology, parts, aligned=True, workers=topology.hosts)
    return Plan(model, strategy, forest, messages(model, strategy), where)


def scaled(model: Model, scale: float) -> Model:
    """The same with weights and outputs divided by ``scale``, in whole floats, of which at least one is left of each.

    Computing is left as it is: with the rates of links divided as well, all times stay the same.
    """
    operators = tuple(
        replace(
            one,
            tensors=tuple(FLOAT_BYTES * max(1, round(size / FLOAT_BYTES / scale)) for size in one.tensors),
            output_floats=max(1, round(one.output_floats / scale)),
        )
        for one in model.operators
    )
    return replace(model, operators=operators)


def _exchanged(every: Sequence[Message]) -> Flows:
    sent = [(one.src, one.dst, one.bytes) for one in every if not one.is_local]
    ends = np.array([each[:2] for each in sent], dtype=np.int64).reshape(-1, 2)
    return Flows(ends[:, 0], ends[:, 1], np.array([each[2] for each in sent], dtype=np.float64))
