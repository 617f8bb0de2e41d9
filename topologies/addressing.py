"""IPv4 addresses for every port: who shares a subnet, and which addresses a connection between two hosts uses.

A switch whose ports all lead to hosts (a star's hub, any BCube switch) is a *bridge*: one subnet, its hosts reach
each other on-link. Every other switch *routes*, and each of its links is a subnet of two addresses (a /31, RFC 3021).
A routed link per port, rather than one subnet per rack, makes every path a matter of routes alone.

Traffic towards a host is addressed to the NIC at which its path arrives, so a connection's two addresses follow from
the paths of its two directions, and both ends compute the same pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.base.errors import TopologyError
from testbed.topologies.model import Topology

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
    """Whether a switch forwards by MAC address: all its ports lead to hosts, and no two of them to the same one.

    Were a host there twice, ARP would pick the NIC, and not the topology. A switch that aggregates needs an address.
    """
    if topology.nodes[switch].ina:
        return False
    heads = [topology.head(directed) for directed in topology.ports[switch]]
    return all(head < topology.host_count for head in heads) and len(set(heads)) == len(heads)


def _dotted(offset: int) -> str:
    address = _FIRST + offset
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"
