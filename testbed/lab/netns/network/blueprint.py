"""Blueprint of a network, as plain data: for each node its ports, addresses, neighbours and routes.

Made in the caller's process from a topology (whose router may be any function), then sent to the sandbox, which
needs nothing else. Numbers that the kernel would choose are chosen here, so that nothing has to be looked up:

- the interface of the port from which directed link ``d`` leaves is ``eth<port>`` with index ``FIRST_INDEX + d`` and
  MAC address ``02:00`` + ``d``. Both are unique in the lab; the kernel treats a veth pair whose ends share an index
  as one whose carrier changes may wait up to a second.
- every host and router knows the MAC address of every neighbour. So no ARP request disturbs a measurement, and the
  kernel's limit of 1,024 learnt neighbours does not limit the lab.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from testbed.base.errors import LabError, SpecError
from testbed.lab.base import LARGE_PACKET_BYTES, Impairment, LinkSettings
from testbed.lab.limits import HTB
from testbed.lab.netns.kernel_interface.rtnetlink import Tunnel
from testbed.topologies import addressing
from testbed.topologies.addressing import Addresses
from testbed.topologies.model import Link, Topology

FIRST_INDEX = 1000

MTU_RANGE = (68, 65535)
"""The least MTU that IPv4 needs (RFC 791), and the largest that a veth pair can carry."""

Mode = Literal["host", "bridge", "learn", "route", "panel"]
"""Mode of a node. A switch of one link layer has a table of ours (``bridge``), or is the kernel's bridge, which learns
(``learn``)."""
Builder = Literal["netns", "mininet"]
"""Builder of the namespaces and links, which decides what kind of bridge they have."""


@dataclass(frozen=True, slots=True)
class Port:
    """An interface: the egress of ``directed_link``. ``address`` is None on a bridging switch and on a panel."""

    directed_link: int
    name: str
    rate_bps: int
    address: str | None
    prefix: int

    @property
    def index(self) -> int:
        """The interface's number in its namespace."""
        return FIRST_INDEX + self.directed_link

    @property
    def mac(self) -> bytes:
        """MAC address: six bytes, locally administered."""
        return b"\x02\x00" + self.directed_link.to_bytes(4, "big")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A neighbour's address: ``address`` is at ``mac`` through the interface ``index``."""

    index: int
    mac: bytes
    address: str


@dataclass(frozen=True, slots=True)
class StaticRoute:
    """A route to ``destination`` (one address) through any of the hops (interface index, gateway or None where
    on-link)."""

    destination: str
    hops: tuple[tuple[int, str | None], ...]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Plan of one namespace."""

    index: int
    name: str
    mode: Mode
    forwards: bool
    ports: tuple[Port, ...]
    routes: tuple[StaticRoute, ...]


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Plan of the whole network. ``ends[d]`` is (node, position among its ports) that directed link ``d`` leaves
    from."""

    nodes: tuple[NodePlan, ...]
    ends: tuple[tuple[int, int], ...]
    settings: LinkSettings
    hosts_file: str
    circuits: Mapping[int, int] = field(default_factory=dict)
    """Circuits of patch panels: for each lit directed link into a panel, the link by which its light leaves."""
    impairments: Mapping[int, Impairment] = field(default_factory=dict)
    """Impairments by directed link, where a link has one."""
    by_netem: bool = False
    """Whether netem impairs links, or else the delay line."""
    detours: frozenset[int] = frozenset()
    """Directed links into a bridging switch whose frames are to be forwarded by address there."""
    builder: Builder = "netns"
    packet_bytes: int = LARGE_PACKET_BYTES[0]
    """Bytes that TCP may hand down at once before they are cut into packets (GSO)."""
    first_segments: int = 0
    """Segments with which a connection begins; 0 for the kernel's number."""
    here: frozenset[int] | None = None
    """Nodes that are on this machine, where the others are on other machines; None for all."""
    tunnels: Mapping[int, Tunnel] = field(default_factory=dict)
    """Tunnels to other machines, by the directed link that leaves a node here."""

    @property
    def own_nodes(self) -> tuple[NodePlan, ...]:
        """Nodes that are on this machine."""
        return self.nodes if self.here is None else tuple(node for node in self.nodes if node.index in self.here)

    @property
    def own_links(self) -> list[int]:
        """Directed links that leave nodes on this machine, in order."""
        return sorted(port.directed_link for node in self.own_nodes for port in node.ports)

    def seed(self, directed_link: int) -> int:
        """Seed of what is drawn about a directed link's packets: one for each link, so that links do not lose the same
        ones."""
        return self.settings.seed << 32 | directed_link

    def port(self, directed_link: int) -> Port:
        """The port that a directed link leaves from."""
        node, position = self.ends[directed_link]
        return self.nodes[node].ports[position]

    def neighbours(self, node: NodePlan) -> Iterator[Neighbour]:
        """Yield the neighbours, on each port, that a node which looks at addresses meets without another node on the
        way."""
        for port in node.ports if node.mode in ("host", "route") or node.forwards else ():
            met = [self.port(directed_link) for directed_link in self._met(port.directed_link)]
            detour = self.port(port.directed_link ^ 1).mac if port.directed_link in self.detours else None
            yield from (Neighbour(port.index, detour or one.mac, one.address) for one in met if one.address is not None)

    def _met(self, directed_link: int) -> list[int]:
        """The ports (by the links that leave them) at the far end of a link, or behind a bridge or panel there."""
        far_end = directed_link ^ 1
        far = self.nodes[self.ends[far_end][0]]
        if far.mode == "panel":
            return [self.circuits[directed_link] ^ 1] if directed_link in self.circuits else []
        if far.mode in ("bridge", "learn"):
            return [p.directed_link ^ 1 for p in far.ports if p.directed_link != far_end]
        return [far_end]

    def switch_table(self, node: NodePlan) -> list[tuple[bytes, Port]]:
        """MAC address that is reached through each port of a bridging switch; empty for other nodes."""
        if node.mode != "bridge":
            return []
        return [(self.port(port.directed_link ^ 1).mac, port) for port in node.ports]

    def joined(self, node: NodePlan) -> dict[int, int]:
        """Map each interface of a panel to the one by which what arrives there leaves; dark ones are left out."""
        if node.mode != "panel":
            return {}
        out = {port.index: self.circuits.get(port.directed_link ^ 1) for port in node.ports}
        return {index: self.port(link).index for index, link in out.items() if link is not None}

    def impaired(self, wanted: Mapping[int, Impairment], routes: Mapping[int, tuple[StaticRoute, ...]]) -> Blueprint:
        """Make the blueprint with links impaired so in mid-run. ``routes`` are those of bridges that forward by address
        from now on, by the links that take a detour there."""
        by_switch = {self.ends[link ^ 1][0]: some for link, some in routes.items()}
        nodes = tuple(
            replace(node, routes=by_switch[node.index]) if node.index in by_switch and not node.forwards else node
            for node in self.nodes
        )
        impairments = {link: one for link, one in {**self.impairments, **wanted}.items() if one}
        return replace(self, nodes=nodes, impairments=impairments)

    def label(self, directed_link: int) -> str:
        """Name a directed link for a reader: ``h0:eth0 -> s0:eth3``."""
        (a, _), (b, _) = self.ends[directed_link], self.ends[directed_link ^ 1]
        there, back = self.port(directed_link), self.port(directed_link ^ 1)
        return f"{self.nodes[a].name}:{there.name} -> {self.nodes[b].name}:{back.name}"


def blueprint(
    topology: Topology,
    settings: LinkSettings,
    pairs: Iterable[tuple[int, int]],
    *,
    every_address: bool = False,
    by_netem: bool = False,
    builder: Builder = "netns",
) -> Blueprint:
    """Plan ``topology`` with routes between each (source, destination) pair of hosts.

    ``every_address``: hosts of a pair reach each other at all their addresses, not only at those of the path between
    them, so that ``ping NAME`` works whichever address the name stands for. Behind patch panels they always do, and
    all forward: connections keep their addresses when circuits move. ``by_netem``: links are impaired by netem, and not
    by the delay line, for which those into bridging switches take a detour.

    Raises:
        SpecError: a link is faster or slower than can be emulated, or cannot be so impaired.
        TopologyError: two hosts of a pair have no route.
    """
    for name, value, low, high in (
        ("mtu", settings.mtu, *MTU_RANGE),
        ("queue_bytes", settings.queue_bytes, settings.mtu, 2**32 - 1),
    ):
        if not low <= value <= high:
            raise SpecError(f"{name} is {value:,}; a link can have {low:,} to {high:,}", fix="choose one within")
    for link in topology.links:
        with _named(topology, link):
            HTB.check_rate(link.rate_bps)
    addresses = addressing.plan(topology)
    ports = [_port(topology, addresses, directed) for directed in range(2 * len(topology.links))]
    impairments = initial_impairments(topology, settings)
    into_bridges = {d for d in impairments if _mode(topology, addresses, topology.head(d)) == "bridge"}
    detours = frozenset() if by_netem else frozenset(into_bridges)
    crossed = {topology.head(directed) for directed in detours}
    moves = topology.panels is not None
    if moves and impairments and not by_netem:
        raise SpecError(
            f"{topology.expression}: {next(iter(impairments.values()))} on a link of a patch panel, which needs netem",
            fix="set the delay to 0, or use a kernel with CONFIG_NET_SCH_NETEM",
        )
    routes = addressing.routes(
        topology, pairs, addresses=addresses, every_address=every_address or moves, crossed=crossed
    )
    static = _static_routes(topology, ports, routes)
    forwarding = _forwarders(topology, ports, static) | crossed
    for switch in crossed:
        static[switch] = _to_own_ports(topology, ports, switch) + static[switch]

    def node_plan(i: int) -> NodePlan:
        mode = _mode(topology, addresses, i)
        mode = "learn" if mode == "bridge" and builder == "mininet" else mode
        own = tuple(ports[directed] for directed in topology.ports[i])
        forwards = mode == "route" or i in forwarding or (moves and mode == "host")
        return NodePlan(i, topology.nodes[i].name, mode, forwards, own, tuple(static[i]))

    nodes = tuple(map(node_plan, range(len(topology.nodes))))
    circuits = topology.circuits
    hosts_file, ends = _hosts_file(nodes), _ends(topology)
    tcp = (settings.packet_bytes(topology), settings.first_segments(topology))
    return Blueprint(nodes, ends, settings, hosts_file, circuits, impairments, by_netem, detours, builder, *tcp)


def initial_impairments(topology: Topology, settings: LinkSettings) -> dict[int, Impairment]:
    """Impairment of each directed link that has one from the start. Raises SpecError: no link can be so impaired."""
    found: dict[int, Impairment] = {}
    for number, link in enumerate(topology.links):
        with _named(topology, link):
            one = Impairment(link.delay_s, settings.jitter_s, settings.loss, settings.reorder)
            if one and not settings.shaped:
                raise SpecError(
                    f"{one} on a link that is not shaped", fix="shape the links, or let them do nothing to packets"
                )
        if one:
            found |= {2 * number: one, 2 * number + 1: one}
    return found


def crossing(
    topology: Topology, pairs: Iterable[tuple[int, int]], switch: int, *, every_address: bool = False
) -> tuple[StaticRoute, ...]:
    """The routes of a bridging switch that is to forward by address as well. Raises TopologyError: where a packet is to
    go depends there on where it comes from, which a route cannot say."""
    addresses = addressing.plan(topology)
    ports = [_port(topology, addresses, directed) for directed in range(2 * len(topology.links))]
    beyond = addressing.routes(topology, pairs, addresses=addresses, every_address=every_address, crossed=[switch])
    static = _static_routes(topology, ports, [route for route in beyond if route.node == switch])
    return (*_to_own_ports(topology, ports, switch), *static[switch])


def detours(
    topology: Topology, wanted: Mapping[int, Impairment], routes_at: Callable[[int], tuple[StaticRoute, ...]]
) -> dict[int, tuple[StaticRoute, ...]]:
    """Find links that are to be impaired by the delay line and lead into a bridging switch, which must forward by
    address for the delay line to see what arrives.

    Args:
        routes_at: :func:`crossing` of a switch.

    Returns:
        Routes of the switch, by directed link.

    Raises:
        LabError: a link leads into a patch panel.
        TopologyError: as :func:`crossing` does.
    """
    found = {}
    for link, impairment in wanted.items():
        switch = topology.head(link)
        if topology.nodes[switch].kind == "panel":
            raise LabError(
                f"{impairment} on a link into {topology.nodes[switch].name}, a patch panel, which needs netem",
                fix="impair the link's other direction, or use a kernel with CONFIG_NET_SCH_NETEM",
            )
        if switch >= topology.host_count and addressing.is_bridge(topology, switch):
            found[link] = routes_at(switch)
    return found


def _to_own_ports(topology: Topology, ports: Sequence[Port], switch: int) -> list[StaticRoute]:
    """Make routes to the hosts at a switch's ports; they come first, for those to what is beyond go by them."""
    return [
        StaticRoute(address, ((ports[directed].index, None),))
        for directed in topology.ports[switch]
        if (address := ports[directed ^ 1].address) is not None
    ]


@contextmanager
def _named(topology: Topology, link: Link) -> Iterator[None]:
    """Raises SpecError: in place of one within, with the link's ends in front."""
    try:
        yield
    except SpecError as error:
        ends = f"{topology.nodes[link.a].name} - {topology.nodes[link.b].name}"
        raise SpecError(f"link {ends}: {error.problem}", fix=error.fix) from None


def _mode(topology: Topology, addresses: Addresses, node: int) -> Mode:
    return "panel" if topology.nodes[node].kind == "panel" else addresses.mode.get(node, "host")


def _port(topology: Topology, addresses: Addresses, directed: int) -> Port:
    node, port = topology.tail(directed), topology.port_at_tail(directed)
    link = topology.links[directed // 2]
    given = addresses.host.get((node, port)) or addresses.port.get((node, port))
    address, prefix = given or (None, 0)
    return Port(directed, f"eth{port}", link.rate_bps, address, prefix)


def _ends(topology: Topology) -> tuple[tuple[int, int], ...]:
    ends = [(0, 0)] * (2 * len(topology.links))
    for node, directed_links in enumerate(topology.ports):
        for position, directed in enumerate(directed_links):
            ends[directed] = (node, position)
    return tuple(ends)


def _static_routes(
    topology: Topology, ports: list[Port], routes: Iterable[addressing.Route]
) -> defaultdict[int, list[StaticRoute]]:
    index = {(topology.tail(d), topology.port_at_tail(d)): port.index for d, port in enumerate(ports)}
    static: defaultdict[int, list[StaticRoute]] = defaultdict(list)
    for route in routes:
        hops = tuple((index[route.node, port], via) for port, via in route.hops)
        static[route.node].append(StaticRoute(route.destination_address, hops))
    return static


def _forwarders(topology: Topology, ports: list[Port], static: dict[int, list[StaticRoute]]) -> set[int]:
    """Nodes that some route names as the gateway to an address that is not their own."""
    owner = {port.address: topology.tail(d) for d, port in enumerate(ports) if port.address is not None}
    return {
        owner[via]
        for routes in static.values()
        for route in routes
        for _, via in route.hops
        if via is not None and owner[via] != owner[route.destination]
    }


def _hosts_file(nodes: Sequence[NodePlan]) -> str:
    """Text of ``/etc/hosts``: each node by name at its first address, each interface as ``<node>-<interface>``."""
    lines = ["127.0.0.1 localhost"]
    for node in nodes:
        addressed = [port for port in node.ports if port.address is not None]
        for port in addressed:
            alias = f" {node.name}" if port is addressed[0] else ""
            lines.append(f"{port.address}{alias} {node.name}-{port.name}")
    return "\n".join(lines) + "\n"
