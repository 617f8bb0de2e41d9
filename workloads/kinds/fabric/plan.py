"""Plan of a scheme of MLfabric on a topology: the nodes that work, serve, schedule and sum, and the bounds that
hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from testbed.base.errors import SchemeError
from testbed.topologies.model import Link, Node, Path, Topology
from testbed.workloads.kinds.asynchronous.plan import Steps, UpdatesCost
from testbed.workloads.kinds.fabric.rates import rule
from testbed.workloads.kinds.fabric.scheduling.divergence import Lead
from testbed.workloads.kinds.fabric.scheduling.network import only_path
from testbed.workloads.kinds.process import Process, process, workers
from testbed.workloads.learning.parts import up_to
from testbed.workloads.sync.cost import cost_of_flows
from testbed.workloads.sync.flows import Flows

Sent = tuple[int, int, float]
"""Bytes that one node sends another: from node, to node, and bytes."""
Route = tuple[int, int, tuple[int, ...]]
"""A way: from node, to node, and the directed links between them."""


@dataclass(frozen=True)
class Options:
    """Options of the scheduler.

    Attributes:
        delay_bound: tau_max of eq. 9: an update is applied if at most this less one others came in between; None for no
            bound.
        staleness: how many iterations a worker may be ahead of the slowest one (SSP); None for any number.
        window_s: for how long updates that become ready are collected before they are planned together; 0 plans each
            at once.
        lag_s: how late a change of a link's rate is told.
        assign: which aggregator takes the next group: any, by seed, or the one whose link is fastest.
        rate: what becomes of the learning rate of an update (:mod:`.rates`), and ``c`` of eq. 21.
        divergence_bound: Div_max of section 5.3, the largest distance of the server's weights from the replica's.
        divergence_updates: the same bound as a number of updates. With neither there is no replica.
        root: who makes sums: a server, or in each iteration a worker that is drawn for it (section 6).
        seed: of that draw.
    """

    delay_bound: int | None = None
    staleness: int | None = None
    window_s: float = 0.1
    lag_s: float = 0.2
    assign: Literal["random", "fastest"] = "random"
    rate: Literal["constant", "worst_case", "adaptive"] = "constant"
    c: float = 1.0
    divergence_bound: float | None = None
    divergence_updates: int | None = None
    root: Literal["server", "random"] = "server"
    seed: int = 0

    @property
    def has_replica(self) -> bool:
        return self.divergence_bound is not None or self.divergence_updates is not None

    def lead(self, momentum: float) -> Lead:
        """Return how far the server may be ahead of the replica, when nothing is committed yet."""
        return Lead(self.divergence_bound, self.divergence_updates, momentum=momentum)

    def rates(self, learning_rate: float) -> Callable[[int, int], float]:
        """Return the rule for the learning rate of an update, as a multiple of the workload's: a function of the
        version of the weights that the update changes, and the version that it was computed on.

        Raises:
            SchemeError: the rule makes no rate of this one.
        """
        if self.rate == "constant":
            return lambda _version, _computed_on: 1.0
        of = rule(self.rate, learning_rate, self.c, self.delay_bound)
        return lambda version, computed_on: of(version + 1, version - computed_on) / learning_rate


@dataclass(frozen=True)
class Fabric:
    """A plan. Its nodes are those of the topology.

    Attributes:
        scheme: the expression that built it.
        nodes: names of the topology's nodes, in its order.
        workers: nodes that compute updates, by rank. Each has a daemon, too.
        server: the node that has the weights, or their first shard; with a root for each iteration, that of the first.
        scheduler: the node that decides what is sent when.
        aggregators: workers whose daemons may sum updates of others on their way, and pass weights on.
        replica: the node that has a copy of the weights; None where there is none.
        replica_aggregators: workers whose daemons may sum updates on their way to it; none of them sums for the server.
        links: (node, port, node, port, rate in bit/s) of each link.
        routes: of each two nodes that may be connected.
        further_servers: the nodes that have the other shards of the weights, in their order.
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
    replica: int | None = None
    replica_aggregators: tuple[int, ...] = ()
    further_servers: tuple[int, ...] = ()

    @property
    def servers(self) -> tuple[int, ...]:
        """The nodes that have a shard of the weights each, in the order of shards."""
        return self.server, *self.further_servers

    @property
    def roots(self) -> tuple[int, ...]:
        """The workers of which one is drawn for each iteration, to do the work of a server; none where there are
        servers."""
        return self.workers if self.options.root == "random" else ()

    def servers_at(self, iteration: int) -> tuple[int, ...]:
        """Return the nodes that get an iteration's updates."""
        return (drawn_root(self.roots, iteration, self.options.seed),) if self.roots else self.servers

    @property
    def nbytes(self) -> int:
        """About how many bytes the plan takes in a file."""
        return 16 * (len(self.nodes) + 5 * len(self.links) + sum(2 + len(links) for *_, links in self.routes))

    def built_by(self, scheme: str) -> Fabric:
        """Return the same plan with another expression."""
        return replace(self, scheme=scheme)

    @property
    def others(self) -> list[int]:
        """The nodes that do not work, sorted."""
        holders = {*self.servers, self.replica} - {*self.roots, None}
        return sorted({self.scheduler, *(node for node in holders if node is not None)})

    @property
    def unreplicated(self) -> Fabric:
        """The plan once the replica is lost."""
        return replace(self, replica=None, replica_aggregators=())

    @property
    def taken_over(self) -> Fabric:
        """The plan once the server is lost, and its replica serves."""
        assert self.replica is not None
        return replace(self.unreplicated, server=self.replica)

    @property
    def to_replica(self) -> tuple[int, ...]:
        """The nodes to which updates go on their way to the replica."""
        return () if self.replica is None else (self.replica, *self.replica_aggregators)

    @property
    def processes(self) -> list[Process]:
        """The processes: workers by rank, which have connections with nobody, their daemons, then the others."""
        names = [f"{name}.daemon" if node in self.workers else name for node, name in enumerate(self.nodes)]
        roles = dict.fromkeys(self.workers, "daemon") | dict.fromkeys(self.others, "server")
        roles |= {self.scheduler: "scheduler"} | ({} if self.replica is None else {self.replica: "replica"})
        return workers(self) + [
            process(names[node], node, role, meets=[names[other] for other in self.met_by(node)])
            for node, role in roles.items()
        ]

    def met_by(self, node: int) -> list[int]:
        """List the nodes that a node's daemon, server, replica or scheduler is connected with, sorted."""
        sums = {*self.aggregators, *self.replica_aggregators, *self.roots}
        met = {*self.others, *(self.workers if node in sums or node not in self.workers else sums)}
        return sorted(met - ({*self.servers} if node in self.servers else {node}))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All (sender, receiver), each once, sorted."""
        return sorted((node, other) for node in (*self.workers, *self.others) for other in self.met_by(node))

    @cached_property
    def topology(self) -> Topology:
        """The network as its scheduler knows it: with the routes that are used."""
        known = {(source, target): (Path(links),) for source, target, links in self.routes}
        hosts = 1 + max(*self.workers, *self.others)
        nodes = tuple(Node(name, "host" if i < hosts else "switch", 0) for i, name in enumerate(self.nodes))
        links = tuple(Link(*one) for one in self.links)
        return Topology("known", {}, nodes, links, lambda _, source, target: known[source, target])


def fabric(
    topology: Topology,
    name: str,
    options: Options,
    aggregators: int | None,
    replica_aggregators: int | None = None,
    servers: int = 1,
) -> Fabric:
    """Make the plan of the scheme ``name``: the last host schedules, the ``servers`` before it serve, all others work.
    A replica is between the two.

    ``aggregators`` of the workers, drawn from all of them, may sum and pass on; None for a fifth of them, at least one.
    ``replica_aggregators`` of the others may sum for the replica; None for as many, as far as there are others.

    Raises:
        SchemeError: there are too few hosts, or too many servers or aggregators; several servers have a replica; or two
            hosts have several paths.
        TopologyError: two hosts have none.
    """
    needed = "a server, a scheduler and workers"
    if options.has_replica:
        needed = "a server, a replica, a scheduler and workers"
    if options.root == "random":
        needed = "a scheduler and two workers"
    least, word = (4, "four") if options.has_replica else (3, "three")
    if topology.host_count < least:
        raise SchemeError(
            f"{name} needs {needed}; {topology.expression} has {topology.host_count} hosts",
            fix=f"take a network of {word} hosts or more",
        )
    *workers, scheduler = topology.hosts
    _check_servers(topology, name, options, servers)
    replica = workers.pop() if options.has_replica else None
    if options.root == "random":
        server, further = drawn_root(workers, 0, options.seed), []
    else:
        workers, (server, *further) = workers[:-servers], workers[-servers:]
    fifth = max(1, len(workers) // 5)
    count = fifth if aggregators is None else aggregators
    if not 0 <= count <= len(workers):
        raise SchemeError(
            f"{name} has {count} aggregators for {len(workers)} workers on {topology.expression}",
            fix=f"give aggregators 0 to {len(workers)}",
        )
    sums = _drawn(workers, count)
    plan = Fabric(
        scheme=name,
        nodes=tuple(node.name for node in topology.nodes),
        workers=tuple(workers),
        server=server,
        scheduler=scheduler,
        aggregators=sums,
        options=options,
        links=tuple((link.a, link.a_port, link.b, link.b_port, link.rate_bps) for link in topology.links),
        routes=(),
        replica=replica,
        replica_aggregators=_for_replica(name, options, sorted({*workers} - {*sums}), replica_aggregators, fifth),
        further_servers=tuple(further),
    )
    return replace(plan, routes=tuple((*pair, only_path(topology, *pair)) for pair in plan.pairs))


def drawn_root(workers: Sequence[int], iteration: int, seed: int) -> int:
    """Draw the worker that is an iteration's root, by a seed that all processes know."""
    return workers[int(np.random.default_rng([seed, len(workers), iteration]).integers(len(workers)))]


def _for_replica(name: str, options: Options, free: Sequence[int], count: int | None, fifth: int) -> tuple[int, ...]:
    """Draw the workers that sum for the replica, from those that do not sum for the server. Raises SchemeError: there
    is no replica, or there are not so many workers."""
    if not options.has_replica:
        if count is None:
            return ()
        raise SchemeError(
            f"{name} has replica_aggregators={count} and no replica", fix="add a divergence_bound, or leave them out"
        )
    if count is None:
        count = min(len(free), fifth)
    if not 0 <= count <= len(free):
        raise SchemeError(
            f"{name} has {count} replica_aggregators; so many workers do not sum for the server: {len(free)}",
            fix=f"give replica_aggregators 0 to {len(free)}, or fewer aggregators",
        )
    return _drawn(free, count)


def _drawn(workers: Sequence[int], count: int) -> tuple[int, ...]:
    chosen = np.random.default_rng([len(workers), count]).choice(workers, count, replace=False)
    return tuple(sorted(int(one) for one in chosen))


def _check_servers(topology: Topology, name: str, options: Options, servers: int) -> None:
    """Raises SchemeError: there are no hosts for so many servers, or several of them have a replica."""
    if options.has_replica and servers > 1:
        raise SchemeError(
            f"{name} has {servers} servers and a replica, which has a copy of one server's weights",
            fix="leave out servers, or leave out divergence_bound and divergence_updates",
        )
    most = topology.host_count - 2
    if not 1 <= servers <= most:
        raise SchemeError(
            f"{name} has {servers} servers for the {topology.host_count} hosts of {topology.expression}",
            fix=f"give servers {up_to(most)}, with a host left to schedule and one to work",
        )


def check_delay_bound(name: str, delay_bound: int) -> None:
    """Raises SchemeError: the scheme ``name`` cannot have this bound."""
    if delay_bound < 1:
        raise SchemeError(
            f"{name} has a delay_bound of {delay_bound}, and an update that no other came before has a delay of 1",
            fix="give delay_bound 1 or more, in updates",
        )


def check_divergence(name: str, distance: float | None, updates: int | None) -> None:
    """Raises SchemeError: the scheme ``name`` cannot have these bounds of the replica's divergence."""
    if distance is not None and updates is not None:
        raise SchemeError(
            f"{name} bounds divergence twice, by a distance of {distance:g} and by {updates} updates",
            fix="give divergence_bound or divergence_updates",
        )
    if distance is not None and not 0 < distance < math.inf:
        raise SchemeError(
            f"{name} has a divergence_bound of {distance:g}", fix="give divergence_bound above 0, as a norm of weights"
        )
    if updates is not None and updates < 1:
        raise SchemeError(
            f"{name} has divergence_updates={updates}, and the server is one update ahead when it applies one",
            fix="give divergence_updates 1 or more",
        )


def check_times(name: str, window: float, lag: float) -> None:
    """Raises SchemeError: the scheme ``name`` cannot have one of these times (s)."""
    for what, value in (("window", window), ("t_lag", lag)):
        if not 0 <= value <= MOST_S:
            raise SchemeError(f"{name} has a {what} of {value:g} s", fix=f"give {what} 0 to {MOST_S:g}, in seconds")


MOST_S = 60.0
"""Longest window and lag."""


# What it costs.


def unsummed(plan: Fabric, gradient_bytes: float) -> list[Sent]:
    """List the sends of an update of each worker that nobody sums, and of weights back to each. Each root has its share
    of iterations."""
    ends = plan.roots or plan.servers
    ways = [(node, end, gradient_bytes / len(ends)) for node in plan.workers for end in ends if node != end]
    return [one for sender, receiver, count in ways for one in ((sender, receiver, count), (receiver, sender, count))]


def cost_of(moved: Iterable[Sent], plan: Fabric, topology: Topology, gradient_bytes: float) -> UpdatesCost:
    """Compute the cost of what is sent."""
    total: dict[tuple[int, int], float] = {}
    for sender, receiver, count in moved:
        total[sender, receiver] = total.get((sender, receiver), 0.0) + count
    pairs = sorted(total)
    senders, receivers = (np.array([pair[end] for pair in pairs], np.int64) for end in (0, 1))
    traffic = Flows(senders, receivers, np.array([total[pair] for pair in pairs], np.float64))
    return UpdatesCost(**vars(cost_of_flows(traffic, topology, rounds=2)), alone=_alone(plan, topology, gradient_bytes))


def _alone(plan: Fabric, topology: Topology, gradient_bytes: float) -> tuple[Steps, ...]:
    """Return the steps of the update of the worker whose NICs are fastest, there and back: whatever way it takes, its
    worker's NICs carry all of it, and each server's NIC its shard. Weights leave when all shards of the update are
    there."""
    count = len(plan.servers)

    def fastest(node: int) -> list[int]:
        """Return the rates of the NICs that the shards can use at most."""
        return sorted((topology.links[link // 2].rate_bps for link in topology.ports[node]), reverse=True)[:count]

    nics = max(map(fastest, plan.workers), key=sum)
    all_of_it = gradient_bytes / len(nics), sum(nics) / len(nics)
    shard = gradient_bytes / count, float(min(fastest(server)[0] for server in plan.servers))
    return (all_of_it, all_of_it), (shard, shard)


def to_json(plan: Fabric) -> dict[str, Any]:
    """Return the plan as JSON for programs, with nodes by name."""
    served = [plan.nodes[node] for node in plan.servers]
    return {
        "scheme": plan.scheme,
        "workers": [plan.nodes[node] for node in plan.workers],
        **({} if plan.roots else {"server": served[0] if len(served) == 1 else served}),
        "scheduler": plan.nodes[plan.scheduler],
        "aggregators": [plan.nodes[node] for node in plan.aggregators],
        **_given(vars(plan.options)),
    } | (
        {}
        if plan.replica is None
        else {
            "replica": plan.nodes[plan.replica],
            "replica_aggregators": [plan.nodes[node] for node in plan.replica_aggregators],
        }
    )


def fields(plan: Fabric) -> dict[str, Any]:
    """Return the fields from which :func:`from_fields` makes a plan. Those of replicas and further servers are left out
    where there are none, so that the record of such a plan is as it was before there were any."""
    told = asdict(plan)
    told["options"] = _given(told["options"])
    if plan.replica is None:
        del told["replica"], told["replica_aggregators"]
    if not plan.further_servers:
        del told["further_servers"]
    return told


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without bounds that are not set, and without a root where there is a server."""
    found = {name: one for name, one in options.items() if one is not None or not name.startswith("divergence")}
    if found["root"] == "server":
        del found["root"], found["seed"]
    return found


def from_fields(told: Mapping[str, Any], made: type[Fabric] = Fabric) -> Fabric:
    """Make a plan of the type ``made`` from fields that were read from JSON."""
    fields: dict[str, Any] = dict(told)
    options = Options(**fields.pop("options"))
    routes = tuple((source, target, tuple(links)) for source, target, links in fields.pop("routes"))
    links = tuple(tuple(link) for link in fields.pop("links"))
    lists: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in fields.items()}
    return made(**lists, options=options, links=links, routes=routes)
