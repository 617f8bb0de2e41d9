"""A data-centre network as pure data: hosts, switches, ports, and links with capacity and delay.

Nodes are numbered with the hosts first, so that a host's index is also the rank of the worker that runs on it.
A link is full duplex; its two directions are numbered ``2 * link`` (a to b) and ``2 * link + 1`` (b to a), and that
number, the *directed link*, is what loads, counters and bounds are indexed by.

Servers may have several NICs, as a PBox has (PHub thesis, sections 2.2 and 6.1.5). A :class:`Burst` measures a NIC.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Literal, Protocol, runtime_checkable

from testbed.base.errors import TopologyError
from testbed.topologies.call import as_text
from testbed.topologies.panels import Panels

EVERY_NIC = "every_nic"
ServerRouting = Literal["by_destination", "every_nic"]


def joined(src: int, src_nics: int, dst: int, dst_nics: int, routing: str) -> list[tuple[int, int]]:
    """Return the NICs, of ``src`` and of ``dst``, that each connection of two hosts joins.

    With ``every_nic`` there is a connection for each NIC of the one that has more. Otherwise there is one, over NIC h
    mod n of a server with n NICs, where h is the other host.
    """
    if routing == EVERY_NIC:
        return [(nic % src_nics, nic % dst_nics) for nic in range(max(src_nics, dst_nics))]
    return [(dst % src_nics, src % dst_nics)]


@dataclass(frozen=True, slots=True)
class Node:
    """A host, a switch, or a patch panel, which is a mirror: it joins ports and never looks at packets.

    ``level`` is 0 for hosts and the layer, counted from 1, for switches (fat-tree: 1 edge, 2 aggregation, 3 core;
    BCube: its level plus 1). ``rack`` numbers the ToR group a host or ToR belongs to, None where racks mean nothing.
    ``ina`` marks a switch that adds what passes through it, see :mod:`testbed.topologies.ina`.
    """

    name: str
    kind: Literal["host", "switch", "panel"]
    level: int
    rack: int | None = None
    ina: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A full-duplex cable from port ``a_port`` of node ``a`` to port ``b_port`` of node ``b``."""

    a: int
    a_port: int
    b: int
    b_port: int
    rate_bps: int
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Path:
    """One route from host to host: its directed links in order, and the share of the flow that takes it.

    ``connection`` numbers parallel circuits, or NICs of a server: two hosts have a connection over each, between the
    NICs that it joins. Each carries the share ``weight`` of their bytes, unless a plan says which bytes take which
    connection. Paths of one number are taken by hashing.
    """

    links: tuple[int, ...]
    weight: float = 1.0
    connection: int = 0


Router = Callable[["Topology", int, int], tuple[Path, ...]]


@runtime_checkable
class RouterByNic(Protocol):
    """A router whose ways to the NICs of one host may differ, as servers forward by address."""

    def __call__(self, topology: Topology, src: int, dst: int) -> tuple[Path, ...]: ...

    def towards(self, topology: Topology, src: int, dst: int, port: int) -> Path:
        """Return the path of traffic to the address of ``port`` of ``dst``, whichever NIC it arrives at."""


@dataclass(frozen=True)
class Topology:
    """A network. ``nodes`` holds every host before the first switch; ``router`` gives the paths between two hosts.

    ``family`` and ``params`` are what the network was built from (``bcube``, ``{"n": 3, "k": 2}``); parameters at their
    default may be left out. ``router`` is asked for two different hosts only. ``panels`` says what patch panels join:
    port s of the panel on interface i, which is the i-th node after the hosts, is interface i of host s.
    """

    family: str
    params: Mapping[str, object]
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    router: Router = field(repr=False, compare=False)
    panels: Panels | None = None
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Notes on the file that it was read from: parts that were left out, and parts that are otherwise than there."""

    @property
    def expression(self) -> str:
        """The text that builds this network again: ``bcube(n=3,k=2)``."""
        return f"{self.family}({','.join(f'{key}={as_text(value)}' for key, value in self.params.items())})"

    @cached_property
    def host_count(self) -> int:
        return sum(1 for node in self.nodes if node.kind == "host")

    @property
    def hosts(self) -> range:
        """Indices of the hosts: ``0 .. host_count - 1``."""
        return range(self.host_count)

    @property
    def switches(self) -> range:
        """Indices of the switches and panels: those after the hosts."""
        return range(self.host_count, len(self.nodes))

    @cached_property
    def index(self) -> dict[str, int]:
        """Node index by name."""
        return {node.name: i for i, node in enumerate(self.nodes)}

    @cached_property
    def circuits(self) -> dict[int, int]:
        """The directed link by which light leaves, for each directed link into a patch panel whose port is lit."""
        found: dict[int, int] = {}
        for interface, pairs in enumerate(self.panels.lit if self.panels else ()):
            for a, b in pairs:
                into_a, into_b = (self.ports[server][interface] for server in (a, b))
                found |= {into_a: into_b ^ 1, into_b: into_a ^ 1}
        return found

    @property
    def is_parallel(self) -> bool:
        """Whether two hosts may have several connections: over parallel circuits, or over each NIC of a server."""
        return self.panels is not None or self.params.get("routing") == EVERY_NIC

    @cached_property
    def ports(self) -> tuple[tuple[int, ...], ...]:
        """The directed link that leaves through each port, by node and port number."""
        out: list[dict[int, int]] = [{} for _ in self.nodes]
        for i, link in enumerate(self.links):
            out[link.a][link.a_port] = 2 * i
            out[link.b][link.b_port] = 2 * i + 1
        return tuple(tuple(ports[p] for p in sorted(ports)) for ports in out)

    @cached_property
    def bursts(self) -> tuple[Burst, ...]:
        """The traffic by which its NICs are measured."""
        return bursts_of(self)

    @property
    def rates_bps(self) -> list[float]:
        """The rate of each directed link."""
        return [float(self.links[directed // 2].rate_bps) for directed in range(2 * len(self.links))]

    def head(self, directed: int) -> int:
        """Return the node that a directed link leads to."""
        link = self.links[directed // 2]
        return link.a if directed % 2 else link.b

    def tail(self, directed: int) -> int:
        """Return the node that a directed link starts from."""
        link = self.links[directed // 2]
        return link.b if directed % 2 else link.a

    def port_at_tail(self, directed: int) -> int:
        """Return the port of :meth:`tail` through which the directed link leaves."""
        link = self.links[directed // 2]
        return link.b_port if directed % 2 else link.a_port

    def paths(self, src: int, dst: int) -> tuple[Path, ...]:
        """Return every route that traffic from ``src`` to ``dst`` takes; weights sum to 1.

        Each end is a host, or a switch that aggregates. A node reaches itself over no link.

        Raises:
            TopologyError: there is no route, or one of the two is neither.
        """
        for node in (src, dst):
            if not 0 <= node < len(self.nodes):
                raise TopologyError(f"node {node} is not a host", fix=f"use a host, 0 to {self.host_count - 1}")
            if node >= self.host_count and not self.nodes[node].ina:
                name = self.nodes[node].name
                raise TopologyError(f"{name} is a switch that only forwards", fix=f"use a host, or add ina=[{name}]")
        return (Path(()),) if src == dst else self.router(self, src, dst)

    def connections(self, src: int, dst: int) -> tuple[tuple[Path, ...], ...]:
        """Return the :meth:`paths` of each connection between two hosts: one, or one for each of several parallel
        circuits, or for each NIC of a server.

        Raises:
            TopologyError: as :meth:`paths`.
        """
        paths = sorted(self.paths(src, dst), key=lambda path: path.connection)
        return tuple(tuple(same) for _, same in groupby(paths, key=lambda path: path.connection))

    def paths_to(self, src: int, dst: int, port: int) -> tuple[Path, ...]:
        """Return the paths of traffic to the address of one NIC of another host.

        Raises:
            TopologyError: as :meth:`paths`.
        """
        if isinstance(self.router, RouterByNic):
            return (self.router.towards(self, src, dst, port),)
        paths = self.paths(src, dst)
        there = [path for path in paths if self.port_at_tail(path.links[-1] ^ 1) == port]
        return tuple(there) if there and any(path.connection for path in paths) else paths


@dataclass(frozen=True)
class Burst:
    """Traffic from one NIC to another: directed links out of and into them, and which parallel connection it is."""

    src: int
    src_link: int
    dst: int
    dst_link: int
    connection: int = 0

    def paths(self, topology: Topology) -> tuple[Path, ...]:
        """Return the paths that the burst takes."""
        return topology.connections(self.src, self.dst)[self.connection]

    def rate_bps(self, topology: Topology) -> int:
        """Return the rate (bit/s) of the slowest link on its way: one between switches may be slower than the NICs."""
        return min(topology.links[link // 2].rate_bps for path in self.paths(topology) for link in path.links)

    def arrives(self, topology: Topology, loss: float) -> float:
        """Return the share of its packets that arrive when each link loses the share ``loss``."""
        return (1 - loss) ** max(len(path.links) for path in self.paths(topology))

    def round_trip_s(self, topology: Topology) -> float:
        """Return the longest time (s) of a packet and its acknowledgement through empty queues."""
        back = topology.connections(self.dst, self.src)[self.connection]
        return sum(
            max(sum(topology.links[link // 2].delay_s for link in path.links) for path in paths)
            for paths in (self.paths(topology), back)
        )


def bursts_of(topology: Topology) -> tuple[Burst, ...]:
    """Choose a burst from every NIC to another such that every NIC also receives one and no link carries two.

    Hosts with one NIC each send to the next host, in the order of the switches that they are at. Hosts with several
    send, through each, to the next host on the same switch; the two ends of a direct link, or of a circuit behind patch
    panels, send to each other. NICs that reach no others this way (alone on a switch, all of one host, or routed around
    it) have no burst.
    """
    groups: dict[int | frozenset[int], list[tuple[int, int]]] = defaultdict(list)
    for host in topology.hosts:
        for link in topology.ports[host]:
            if topology.head(link) < topology.host_count:
                groups[frozenset({link, link ^ 1})].append((host, link))
            elif topology.nodes[topology.head(link)].kind != "panel":
                single = len(topology.ports[host]) == 1
                groups[-1 if single else topology.head(link)].append((host, link))
            elif link in topology.circuits:
                groups[frozenset({link, topology.circuits[link] ^ 1})].append((host, link))
    groups[-1].sort(key=lambda nic: topology.head(nic[1]))  # so that each uplink of a rack carries one
    found: list[Burst] = []
    for members in groups.values():
        ring = [
            _burst(topology, src, src_link, dst, dst_link ^ 1)
            for (src, src_link), (dst, dst_link) in zip(members, members[1:] + members[:1], strict=True)
        ]
        if None not in ring:
            found += [burst for burst in ring if burst]
    return tuple(found)


def _burst(topology: Topology, src: int, src_link: int, dst: int, dst_link: int) -> Burst | None:
    """Make a burst; None where no connection from src to dst leaves by the first link and arrives by the last."""
    for number, paths in enumerate(topology.connections(src, dst)) if src != dst else ():
        if all(path.links[0] == src_link and path.links[-1] == dst_link for path in paths):
            return Burst(src, src_link, dst, dst_link, number)
    return None
