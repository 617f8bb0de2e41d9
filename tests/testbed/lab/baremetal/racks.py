"""Networks whose racks differ, for test_racks.py."""

from __future__ import annotations

from testbed.topologies.model import Link, Node, Topology
from testbed.topologies.shortest import ShortestPaths


def _nodes(hosts: int) -> tuple[Node, ...]:
    return (*(Node(f"h{i}", "host", 0) for i in range(hosts)), *(Node(f"s{i}", "switch", 1) for i in range(2)))


def uneven(rate_bps: int, delay_s: float) -> Topology:
    """One host on a switch, three on another, and a link between the two."""
    links = [Link(0, 0, 4, 0, rate_bps, delay_s), *(Link(i, 0, 5, i - 1, rate_bps, delay_s) for i in (1, 2, 3))]
    return Topology("uneven", {}, _nodes(4), (*links, Link(4, 1, 5, 3, rate_bps, delay_s)), ShortestPaths())


def both(rate_bps: int, delay_s: float) -> Topology:
    """Two hosts, each on both of two switches that a link joins."""
    links = [Link(i, s, 2 + s, i, rate_bps, delay_s) for i in (0, 1) for s in (0, 1)]
    return Topology("both", {}, _nodes(2), (*links, Link(2, 2, 3, 2, rate_bps, delay_s)), ShortestPaths())
