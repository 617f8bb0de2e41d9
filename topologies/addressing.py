"""IPv4 addresses for every port, and the kernel routes that make traffic take a topology's paths.

A switch whose ports all lead to hosts (a star's hub, any BCube switch) is a *bridge*: one subnet, its hosts reach each
other on-link. Every other switch *routes*, and each of its links is a subnet of two addresses (a /31, RFC 3021). A
routed link per port, rather than one subnet per rack, makes every path a matter of routes alone.

Traffic towards a host is addressed to the NIC at which its path arrives, so a connection's two addresses follow from
the paths of its two directions, and both ends compute the same pair.

The kernel forwards by destination address alone. So a path is turned into one route per node that it passes, and a
router whose next hop at a node depends on more than (node, destination) is refused: it could not be installed.
Neighbours on one subnet reach each other without a route.

Connections from several NICs of a server may lead to one address. Their route has a hop for each of these NICs, and
their sockets are bound to the NIC that each is to leave by (:attr:`testbed.workloads.job.Peer.bound`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.base.errors import TopologyError
from testbed.topologies.model import Path, Topology

Port = tuple[int, int]
"""A node and one of its port numbers."""

_FIRST = 10 << 24  # 10.0.0.0/8, the largest private block (RFC 1918)
_ROOM = 1 << 24


@dataclass(frozen=True)
class Addresses:
    """The plan of a network's addresses.

    Attributes:
        host: address and prefix length of each port of each host: ``("10.0.0.1", 28)``.
        port: the same for each port of each switch that routes; a bridge has no address.
        mode: by switch, how it forwards.
    """

    topology: Topology
    host: dict[Port, tuple[str, int]]
    port: dict[Port, tuple[str, int]]
    mode: dict[int, Literal["bridge", "route"]]

    def of(self, node: int, port: int) -> str:
        """Return the address of one port of a host or of a switch that routes."""
        return (self.host if node < self.topology.host_count else self.port)[node, port][0]

    def arrival(self, src: int, dst: int, connection: int = 0) -> str:
        """Return the address of ``dst`` that traffic from ``src`` goes to over one of their connections: its NIC at the
        end of the (first) path.

        Raises:
            TopologyError: there is no route, or the two are the same host.
        """
        if src == dst:
            raise TopologyError(
                f"no NIC lies between {self.topology.nodes[src].name} and itself", fix="use two different hosts"
            )
        last = self.topology.connections(src, dst)[connection][0].links[-1]
        return self.of(dst, self.topology.port_at_tail(last ^ 1))

    def flow(self, src: int, dst: int, connection: int = 0) -> tuple[str, str]:
        """Return the addresses of a TCP connection between two hosts, ``src``'s first; ``flow(dst, src)`` is the same
        pair.

        Args:
            connection: which of their parallel ones (:meth:`.Topology.connections`).

        Raises:
            TopologyError: there is no route, or the two are the same host.
        """
        return self.arrival(dst, src, connection), self.arrival(src, dst, connection)

    def leading(self, src: int, dst: int, address: str) -> list[int]:
        """List the connections from one host to another that lead to this address. Of several, each leaves by another
        NIC.

        Raises:
            TopologyError: there is no route, or the two are the same host.
        """
        count = len(self.topology.connections(src, dst))
        return [number for number in range(count) if self.arrival(src, dst, number) == address]


def plan(topology: Topology) -> Addresses:
    """Give every port an address in 10.0.0.0/8, in disjoint subnets that are as small as their ports allow.

    Raises:
        TopologyError: the network needs more addresses than there are.
    """
    mode: dict[int, Literal["bridge", "route"]] = {
        switch: "bridge" if is_bridge(topology, switch) else "route" for switch in topology.switches
    }
    given: dict[Port, tuple[str, int]] = {}
    free = 0
    for switch in topology.switches:
        if mode[switch] == "bridge":
            far_ends = [
                (topology.head(directed), topology.port_at_tail(directed ^ 1)) for directed in topology.ports[switch]
            ]
            host_bits = (len(far_ends) + 1).bit_length()  # the network's and the broadcast address are not for hosts
            base = -(-free >> host_bits) << host_bits
            for place, end in enumerate(far_ends, start=1):
                given[end] = _dotted(base + place), 32 - host_bits
            free = base + (1 << host_bits)
    free = max(free, 2)  # 10.0.0.0 may be a host's address, but reads like a network's
    for link in topology.links:
        if mode.get(link.a) != "bridge" and mode.get(link.b) != "bridge":
            start = free + free % 2
            given[link.a, link.a_port], given[link.b, link.b_port] = (_dotted(start), 31), (_dotted(start + 1), 31)
            free = start + 2
    if free > _ROOM:
        raise TopologyError(
            f"{topology.expression} needs {free:,} addresses; 10.0.0.0/8 has {_ROOM:,}", fix="make it smaller"
        )
    hosts = {port: address for port, address in given.items() if port[0] < topology.host_count}
    return Addresses(topology, hosts, {port: given[port] for port in given.keys() - hosts.keys()}, mode)


def is_bridge(topology: Topology, switch: int) -> bool:
    """Whether a switch forwards by MAC address: its ports lead to different hosts, else ARP would pick the NIC, and not
    the topology. A switch that aggregates needs an address."""
    if topology.nodes[switch].ina:
        return False
    heads = [topology.head(directed) for directed in topology.ports[switch]]
    return all(head < topology.host_count for head in heads) and len(set(heads)) == len(heads)


def _dotted(offset: int) -> str:
    address = _FIRST + offset
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"


Hop = tuple[int, str | None]
"""The port that traffic leaves by, and the address of the next node; None where the destination is on that subnet."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route at ``node``: traffic for ``destination_address`` takes one of ``hops``, each with the same weight."""

    node: int
    destination_address: str
    hops: tuple[Hop, ...]


def routes(
    topology: Topology,
    pairs: Iterable[tuple[int, int]],
    *,
    addresses: Addresses | None = None,
    every_address: bool = False,
    crossed: Collection[int] = (),
) -> list[Route]:
    """List the routes that traffic between each pair of hosts needs, in both directions, beyond connected subnets.

    Args:
        pairs: hosts that talk to each other; order and repetition do not matter.
        addresses: the topology's plan, if it is at hand.
        every_address: reach the other NICs of each destination by the same path, too. Connections as
            :meth:`Addresses.flow` names them need only the NIC at which the path arrives; ``ping NAME`` needs any.
        crossed: bridges that are to forward by address as well, and get routes to what is beyond their own ports.

    Raises:
        TopologyError: a pair has no route, the paths of two pairs contradict each other, or the weights of a pair's
            paths are not what an even split at each node gives.
    """
    table = _Table(topology, addresses or plan(topology), crossed)
    for low, high in {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}:
        table.add(low, high, every_address)
        table.add(high, low, every_address)
    return table.routes()


class _Table:
    """Next hops by node and destination address, gathered path by path."""

    def __init__(self, topology: Topology, addresses: Addresses, crossed: Collection[int]) -> None:
        self.topology = topology
        self.addresses = addresses
        self.crossed = crossed
        self.hops: dict[tuple[int, str], set[Hop]] = {}

    def add(self, src: int, dst: int, every_address: bool) -> None:
        if every_address:
            for port in range(len(self.topology.ports[dst])):
                self._add(src, dst, self.topology.paths_to(src, dst, port), self.addresses.of(dst, port))
            return
        by_address: dict[str, list[Path]] = {}
        for paths in self.topology.connections(src, dst):
            nic = self.topology.port_at_tail(paths[0].links[-1] ^ 1)
            by_address.setdefault(self.addresses.of(dst, nic), []).extend(paths)
        for address, leading in by_address.items():
            if len(leading) > 1 or not self._is_on_link(leading[0]):
                self._add(src, dst, leading, address)

    def _add(self, src: int, dst: int, paths: Sequence[Path], address: str) -> None:
        """Add the next hops by which traffic of ``src`` to this address of ``dst`` takes these paths."""
        next_hops: dict[int, set[Hop]] = {}
        deciding: list[list[int]] = []
        for path in paths:
            steps = list(self._steps(path))
            deciding.append([node for node, _ in steps])
            for node, hop in steps:
                next_hops.setdefault(node, set()).add(hop)
        shares = [1 / math.prod(len(next_hops[node]) for node in nodes) for nodes in deciding]
        self._check_weights(src, dst, paths, shares)
        for node, hops in next_hops.items():
            towards: set[Hop] = {(port, None if via == address else via) for port, via in hops}
            if self.hops.setdefault((node, address), towards) != towards:
                names = self.topology.nodes
                raise TopologyError(
                    f"{self.topology.expression}: at {names[node].name} the way to {names[dst].name} depends on where "
                    "traffic comes from",
                    fix="let the router choose each next hop by node and destination only",
                )

    def routes(self) -> list[Route]:
        """List the routes, without those that a connected subnet already gives."""
        return [
            Route(node, address, tuple(sorted(hops, key=lambda hop: (hop[0], hop[1] or ""))))
            for (node, address), hops in sorted(self.hops.items())
            if len(hops) > 1 or all(via is not None for _, via in hops)
        ]

    def _is_on_link(self, path: Path) -> bool:
        links = path.links
        first_stop = self.topology.head(links[0])
        return len(links) == 1 or (len(links) == 2 and self.addresses.mode.get(first_stop) == "bridge")

    def _steps(self, path: Path) -> Iterator[tuple[int, Hop]]:
        """Yield each node of the path that decides, its port and the next such node's address there. Bridges do not
        decide, unless they are crossed."""
        topology = self.topology
        port: int | None = None
        for directed in path.links:
            if port is None:
                node, port = topology.tail(directed), topology.port_at_tail(directed)
            head = topology.head(directed)
            if self.addresses.mode.get(head) != "bridge":
                via = self.addresses.of(head, topology.port_at_tail(directed ^ 1))
                yield node, (port, via)
                if topology.tail(directed) in self.crossed:
                    yield topology.tail(directed), (topology.port_at_tail(directed), via)
                port = None

    def _check_weights(self, src: int, dst: int, paths: Sequence[Path], shares: list[float]) -> None:
        """Check that shares are even: the kernel gives each next hop the same share of a connection."""
        whole = sum(path.weight for path in paths)
        for path, share in zip(paths, shares, strict=True):
            if not math.isclose(share * whole, path.weight):
                names = self.topology.nodes
                raise TopologyError(
                    f"{self.topology.expression}: a path from {names[src].name} to {names[dst].name} has weight "
                    f"{path.weight:g}, but would carry {share * whole:g}",
                    fix="split traffic evenly at each node, over hops that some path takes",
                )
