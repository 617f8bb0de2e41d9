"""A topology of one's own: two switches with hosts on each, and a cable between them."""

from __future__ import annotations

from testbed.topologies.model import Link, Node, Topology
from testbed.topologies.shortest import ShortestPaths


def dumbbell(rate_bps: int, delay_s: float, *, left: int = 2, right: int = 2) -> Topology:
    """The first ``left`` hosts on switch ``west``, the others on ``east``."""
    hosts = left + right
    west, east = hosts, hosts + 1
    nodes = [Node(f"h{h}", "host", level=0, rack=int(h >= left)) for h in range(hosts)]
    nodes.append(Node("west", "switch", level=1, rack=0))
    nodes.append(Node("east", "switch", level=1, rack=1))
    links = [Link(h, 0, west, h, rate_bps, delay_s) for h in range(left)]
    links += [Link(left + h, 0, east, h, rate_bps, delay_s) for h in range(right)]
    links.append(Link(west, left, east, right, rate_bps, delay_s))
    sides = {"left": left, "right": right}
    return Topology("dumbbell", sides, tuple(nodes), tuple(links), ShortestPaths())
