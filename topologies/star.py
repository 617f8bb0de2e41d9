"""Hosts around one non-blocking switch: BML's stand-in for a fat-tree (BML, section 5.1)."""

from __future__ import annotations

from topologies.model import Link, Node, Path, Topology
from topologies.parameters import at_least, check_size


def star(rate_bps: int, delay_s: float, *, hosts: int) -> Topology:
    """Hosts around one non-blocking switch.

    Host h is on port h of switch ``s0``.

    Raises:
        TopologyError: ``hosts`` is less than 1.
    """
    at_least("star", 1, hosts=hosts)
    check_size("star", hosts, hosts=hosts)
    nodes = [Node(f"h{h}", "host", 0, rack=0) for h in range(hosts)] + [Node("s0", "switch", 1, rack=0)]
    links = tuple(Link(h, 0, hosts, h, rate_bps, delay_s) for h in range(hosts))
    return Topology("star", {"hosts": hosts}, tuple(nodes), links, _through_the_switch)


def _through_the_switch(_: Topology, src: int, dst: int) -> tuple[Path, ...]:
    return (Path((2 * src, 2 * dst + 1)),)
