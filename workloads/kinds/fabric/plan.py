"""What a scheme of MLfabric does on a topology: who works, serves, schedules and sums, and under which bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from testbed.base.errors import SchemeError
from topologies.model import Link, Node, Path, Topology
from workloads.kinds.asynchronous.plan import Steps, UpdatesCost
from workloads.kinds.fabric.rates import RateSettings, rule
from workloads.kinds.fabric.scheduling.network import only_path
from workloads.sync.cost import cost_of_flows
from workloads.sync.flows import Flows

Route = tuple[int, int, tuple[int, ...]]
"""From node, to node, and the directed links on the way."""


@dataclass(frozen=True)
class Options:
    """How the scheduler decides.

    Attributes:
        delay_bound: tau_max of eq. 9: an update is applied if at most this less one others came in between; None for no
            bound.
        staleness: how many iterations a worker may be ahead of the slowest one (SSP); None for any number.
        window_s: for how long updates that become ready are collected before they are planned together; 0 plans each
            at once.
        lag_s: how late a change of a link's rate is told.
        assign: which aggregator takes the next group: any, by seed, or the one whose link is fastest.
        rate: what becomes of the learning rate of an update (:mod:`.rates`), and ``c`` of eq. 21.
    """

    delay_bound: int | None = None
    staleness: int | None = None
    window_s: float = 0.1
    lag_s: float = 0.2
    assign: Literal["random", "fastest"] = "random"
    rate: Literal["constant", "worst_case", "adaptive"] = "constant"
    c: float = 1.0

    def rates(self, learning_rate: float) -> Callable[[int, int], float]:
        """What the learning rate of an update is of the workload's: from the version of the weights that it changes,
        and from the one that it was computed on.

        Raises:
            SchemeError: the rule makes no rate of this one.
        """
        if self.rate == "constant":
            return lambda _version, _computed_on: 1.0
        settings = RateSettings(learning_rate, self.c, self.delay_bound)
        of = rule(self.rate, settings)
        return lambda version, computed_on: of(settings, version + 1, version - computed_on) / learning_rate


@dataclass(frozen=True)
class Fabric:
    """A plan. Its nodes are those of the topology.

    Attributes:
        scheme: the expression that built it.
        nodes: names of the topology's nodes, in its order.
        workers: nodes that compute updates, by rank. Each has a daemon, too.
        server: the node that has the weights.
        scheduler: the node that decides what is sent when.
        aggregators: workers whose daemons may sum updates of others on their way, and pass weights on.
        links: (node, port, node, port, rate in bit/s) of each link.
        routes: of each two nodes that may be connected.
    """

    kind: ClassVar[str] = "fabric"
    scheme: str
    nodes: tuple[str, ...]
    workers: tuple[int, ...]
    server: int
    scheduler: int
    aggregators: tuple[int, ...]
    options: Options
    links: tuple[tuple[int, int, int, int, int], ...]
    routes: tuple[Route, ...]

    @property
    def nbytes(self) -> int:
        """How much room it takes in a file, about."""
        return 16 * (len(self.nodes) + 5 * len(self.links) + sum(2 + len(links) for *_, links in self.routes))

    def built_by(self, scheme: str) -> Fabric:
        """The same plan, of another expression."""
        return replace(self, scheme=scheme)

    def met_by(self, node: int) -> list[int]:
        """The nodes that a node's daemon, server or scheduler is connected with, sorted."""
        met = {self.server, self.scheduler, *self.aggregators} if node in self.workers else {*self.workers}
        if node in (self.server, self.scheduler):
            met |= {self.server, self.scheduler}
        if node in self.aggregators:
            met |= {*self.workers}
        return sorted(met - {node})

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Each (sender, receiver) once, sorted."""
        return sorted(
            (node, other) for node in (*self.workers, self.server, self.scheduler) for other in self.met_by(node)
        )

    @cached_property
    def topology(self) -> Topology:
        """The network as its scheduler knows it: with the routes that are used."""
        known = {(source, target): (Path(links),) for source, target, links in self.routes}
        hosts = 1 + max(*self.workers, self.server, self.scheduler)
        nodes = tuple(Node(name, "host" if i < hosts else "switch", 0) for i, name in enumerate(self.nodes))
        links = tuple(Link(*one) for one in self.links)
        return Topology("known", {}, nodes, links, lambda _, source, target: known[source, target])


def fabric(topology: Topology, name: str, options: Options, aggregators: int | None) -> Fabric:
    """The plan of the scheme ``name``: the last host schedules, the one before it serves, all others work.

    ``aggregators`` of the workers, drawn from all of them, may sum and pass on; None for a fifth of them, at least one.

    Raises:
        SchemeError: there are too few hosts, or too many aggregators; or two hosts have several paths.
        TopologyError: two hosts have none.
    """
    if topology.host_count < 3:
        raise SchemeError(
            f"{name} needs a server, a scheduler and workers; {topology.expression} has {topology.host_count} hosts",
            fix="take a network of three hosts or more",
        )
    *workers, server, scheduler = topology.hosts
    count = max(1, len(workers) // 5) if aggregators is None else aggregators
    if not 0 <= count <= len(workers):
        raise SchemeError(
            f"{name} has {count} aggregators for {len(workers)} workers on {topology.expression}",
            fix=f"give aggregators 0 to {len(workers)}",
        )
    chosen = np.random.default_rng([len(workers), count]).choice(len(workers), count, replace=False)
    plan = Fabric(
        scheme=name,
        nodes=tuple(node.name for node in topology.nodes),
        workers=tuple(workers),
        server=server,
        scheduler=scheduler,
        aggregators=tuple(sorted(int(one) for one in chosen)),
        options=options,
        links=tuple((link.a, link.a_port, link.b, link.b_port, link.rate_bps) for link in topology.links),
        routes=(),
    )
    return replace(plan, routes=tuple((*pair, only_path(topology, *pair)) for pair in plan.pairs))


def check_delay_bound(name: str, delay_bound: int) -> None:
    """
    Raises:
        SchemeError: the scheme ``name`` cannot have this bound.
    """
    if delay_bound < 1:
        raise SchemeError(
            f"{name} has a delay_bound of {delay_bound}, and an update that no other came before has a delay of 1",
            fix="give delay_bound 1 or more, in updates",
        )


def check_times(name: str, window: float, lag: float) -> None:
    """
    Raises:
        SchemeError: the scheme ``name`` cannot have one of these times (s).
    """
    for what, value in (("window", window), ("t_lag", lag)):
        if not 0 <= value <= MOST_S:
            raise SchemeError(f"{name} has a {what} of {value:g} s", fix=f"give {what} 0 to {MOST_S:g}, in seconds")


MOST_S = 60.0
"""Longest window and lag."""


# What it costs.


def cost(plan: Fabric, topology: Topology, gradient_bytes: float) -> UpdatesCost:
    """Of an update of each worker that nobody sums, and weights back to each."""
    ways = [(worker, plan.server) for worker in plan.workers]
    return cost_of([(*way, gradient_bytes) for one in ways for way in (one, one[::-1])], plan, topology, gradient_bytes)


def cost_of(
    moved: Sequence[tuple[int, int, float]], plan: Fabric, topology: Topology, gradient_bytes: float
) -> UpdatesCost:
    """Of what is sent: (sender, receiver, bytes)."""
    total: dict[tuple[int, int], float] = {}
    for sender, receiver, count in moved:
        total[sender, receiver] = total.get((sender, receiver), 0.0) + count
    pairs = sorted(total)
    senders, receivers = (np.array([pair[end] for pair in pairs], np.int64) for end in (0, 1))
    traffic = Flows(senders, receivers, np.array([total[pair] for pair in pairs], np.float64))
    return UpdatesCost(**vars(cost_of_flows(traffic, topology, rounds=2)), alone=_alone(plan, topology, gradient_bytes))


def _alone(plan: Fabric, topology: Topology, gradient_bytes: float) -> tuple[Steps, ...]:
    """The update of the worker whose NIC is fastest, there and back: whatever way it takes, its worker's NIC and the
    server's carry all of it."""

    def fastest(node: int) -> int:
        return max(topology.links[link // 2].rate_bps for link in topology.ports[node])

    rate_bps = float(min(fastest(plan.server), max(map(fastest, plan.workers))))
    return (((gradient_bytes, rate_bps), (gradient_bytes, rate_bps)),)


def to_json(plan: Fabric) -> dict[str, Any]:
    """For programs, with nodes by name."""
    return {
        "scheme": plan.scheme,
        "workers": [plan.nodes[node] for node in plan.workers],
        "server": plan.nodes[plan.server],
        "scheduler": plan.nodes[plan.scheduler],
        "aggregators": [plan.nodes[node] for node in plan.aggregators],
        **vars(plan.options),
    }


def from_fields(told: Mapping[str, Any], made: type[Fabric] = Fabric) -> Fabric:
    """The plan, of the type ``made``, whose fields JSON has told."""
    fields: dict[str, Any] = dict(told)
    options = Options(**fields.pop("options"))
    routes = tuple((source, target, tuple(links)) for source, target, links in fields.pop("routes"))
    links = tuple(tuple(link) for link in fields.pop("links"))
    lists: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in fields.items()}
    return made(**lists, options=options, links=links, routes=routes)
