"""What to build, as plain data: for each node its ports, addresses, neighbours and routes.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.errors import SpecError
from testbed.lab.base import LinkSettings, check_rate
from topologies import addressing, routing
from topologies.addressing import Addresses
from topologies.model import Link, Topology

FIRST_INDEX = 1000

MTU_RANGE = (68, 65535)
"""What IPv4 needs (RFC 791), and what a veth pair can carry."""

Mode = Literal["host", "bridge", "route", "panel"]


@dataclass(frozen=True, slots=True)
class Port:
    """An interface: the egress of ``directed_link``. ``address`` is None on a bridging switch and on a panel."""

    directed_link: int
    name: str
    rate_bps: int
    delay_s: float
    address: str | None
    prefix: int

    @property
    def index(self) -> int:
        """The interface's number in its namespace."""
        return FIRST_INDEX + self.directed_link

    @property
    def mac(self) -> bytes:
        """Six bytes, locally administered."""
        return b"\x02\x00" + self.directed_link.to_bytes(4, "big")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """``address`` is at ``mac`` through the interface ``index``."""

    index: int
    mac: bytes
    address: str


@dataclass(frozen=True, slots=True)
class StaticRoute:
    """To ``destination`` (one address) through any of the hops (interface index, gateway or None where on-link)."""

    destination: str
    hops: tuple[tuple[int, str | None], ...]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One namespace."""

    index: int
    name: str
    mode: Mode
    forwards: bool
    ports: tuple[Port, ...]
    routes: tuple[StaticRoute, ...]


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The whole network. ``ends[d]`` is (node, position among its ports) that directed link ``d`` leaves from."""

    nodes: tuple[NodePlan, ...]
    ends: tuple[tuple[int, int], ...]
    settings: LinkSettings
    hosts_file: str
    circuits: Mapping[int, int]
    """For each directed link into a patch panel that is lit, the one that its light leaves by."""

    def port(self, directed_link: int) -> Port:
        """The port that a directed link leaves from."""
        node, position = self.ends[directed_link]
        return self.nodes[node].ports[position]

    def neighbours(self, node: NodePlan) -> Iterator[Neighbour]:
        """Who a host or router meets without another on the way, on each port."""
        for port in node.ports if node.mode in ("host", "route") else ():
            met = (self.port(directed_link) for directed_link in self._met(port.directed_link))
            yield from (Neighbour(port.index, one.mac, one.address) for one in met if one.address is not None)

    def _met(self, directed_link: int) -> list[int]:
        """The ports (by the links that leave them) at the far end of a link, or behind a bridge or panel there."""
        far_end = directed_link ^ 1
        far = self.nodes[self.ends[far_end][0]]
        if far.mode == "panel":
            return [self.circuits[directed_link] ^ 1] if directed_link in self.circuits else []
        if far.mode == "bridge":
            return [p.directed_link ^ 1 for p in far.ports if p.directed_link != far_end]
        return [far_end]

    def switch_table(self, node: NodePlan) -> list[tuple[bytes, Port]]:
        """For a bridging switch, the MAC address that is reached through each of its ports."""
        if node.mode != "bridge":
            return []
        return [(self.port(port.directed_link ^ 1).mac, port) for port in node.ports]

    def joined(self, node: NodePlan) -> dict[int, int]:
        """For a panel, the interface that what arrives at an interface leaves by; dark ones are left out."""
        if node.mode != "panel":
            return {}
        out = {port.index: self.circuits.get(port.directed_link ^ 1) for port in node.ports}
        return {index: self.port(link).index for index, link in out.items() if link is not None}

    def label(self, directed_link: int) -> str:
        """The directed link for a reader: ``h0:eth0 -> s0:eth3``."""
        (a, _), (b, _) = self.ends[directed_link], self.ends[directed_link ^ 1]
        there, back = self.port(directed_link), self.port(directed_link ^ 1)
        return f"{self.nodes[a].name}:{there.name} -> {self.nodes[b].name}:{back.name}"


def blueprint(
    topology: Topology, settings: LinkSettings, pairs: Iterable[tuple[int, int]], *, every_address: bool = False
) -> Blueprint:
    """Plan ``topology`` with routes between each (source, destination) pair of hosts.

    ``every_address``: hosts of a pair reach each other at all their addresses, not only at those of the path between
    them, so that ``ping NAME`` works whichever address the name stands for. Behind patch panels they always do, and
    all forward: connections keep their addresses when circuits move.

    Raises:
        SpecError: a link is faster or slower than can be emulated.
        TopologyError: two hosts of a pair have no route.
    """
    _check_settings(settings)
    for link in topology.links:
        _check_link(topology, link, settings)
    addresses = addressing.plan(topology)
    ports = [_port(topology, addresses, directed) for directed in range(2 * len(topology.links))]
    moves = topology.panels is not None
    routes = routing.routes(topology, pairs, addresses=addresses, every_address=every_address or moves)
    static = _static_routes(topology, ports, routes)
    forwarding = _forwarders(topology, ports, static)
    nodes = tuple(
        NodePlan(
            i,
            node.name,
            _mode(topology, addresses, i),
            _mode(topology, addresses, i) == "route" or i in forwarding or (moves and node.kind == "host"),
            tuple(ports[directed] for directed in topology.ports[i]),
            tuple(static[i]),
        )
        for i, node in enumerate(topology.nodes)
    )
    return Blueprint(nodes, _ends(topology), settings, _hosts_file(nodes), topology.circuits)


def _check_settings(settings: LinkSettings) -> None:
    for name, value, low, high in (
        ("mtu", settings.mtu, *MTU_RANGE),
        ("queue_bytes", settings.queue_bytes, settings.mtu, 2**32 - 1),
    ):
        if not low <= value <= high:
            raise SpecError(f"{name} is {value:,}; a link can have {low:,} to {high:,}", fix="choose one within")


def _check_link(topology: Topology, link: Link, settings: LinkSettings) -> None:
    ends = f"{topology.nodes[link.a].name} - {topology.nodes[link.b].name}"
    try:
        check_rate(link.rate_bps)
    except SpecError as error:
        raise SpecError(f"link {ends}: {error.problem}", fix=error.fix) from None
    if link.delay_s and not settings.shaped:
        raise SpecError(
            f"link {ends}: a delay of {link.delay_s * 1e3:g} ms on a link that is not shaped",
            fix="shape the links, or set the delay to 0",
        )


def _mode(topology: Topology, addresses: Addresses, node: int) -> Mode:
    return "panel" if topology.nodes[node].kind == "panel" else addresses.mode.get(node, "host")


def _port(topology: Topology, addresses: Addresses, directed: int) -> Port:
    node, port = topology.tail(directed), topology.port_at_tail(directed)
    link = topology.links[directed // 2]
    given = addresses.host.get((node, port)) or addresses.port.get((node, port))
    address, prefix = given or (None, 0)
    return Port(directed, f"eth{port}", link.rate_bps, link.delay_s, address, prefix)


def _ends(topology: Topology) -> tuple[tuple[int, int], ...]:
    ends = [(0, 0)] * (2 * len(topology.links))
    for node, directed_links in enumerate(topology.ports):
        for position, directed in enumerate(directed_links):
            ends[directed] = (node, position)
    return tuple(ends)


def _static_routes(
    topology: Topology, ports: list[Port], routes: Iterable[routing.Route]
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
    """``/etc/hosts``: each node by name at its first address, each interface as ``<node>-<interface>``."""
    lines = ["127.0.0.1 localhost"]
    for node in nodes:
        addressed = [port for port in node.ports if port.address is not None]
        for port in addressed:
            alias = f" {node.name}" if port is addressed[0] else ""
            lines.append(f"{port.address}{alias} {node.name}-{port.name}")
    return "\n".join(lines) + "\n"
