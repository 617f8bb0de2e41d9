"""Bursts between NICs, which together use every NIC once each way."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.topologies.model import Path, Topology


@dataclass(frozen=True)
class Burst:
    """Traffic from one NIC to another: directed links out of ``src`` and into ``dst``, and which of the parallel
    connections of the two hosts they belong to."""

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
        """Return the longest time (s) for which a packet and its acknowledgement are on their way through empty
        queues."""
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
