"""Check of a topology from a user's own builder: whether it keeps the rules that everything else relies on."""

from __future__ import annotations

import re
from collections import Counter

from testbed.base.errors import TopologyError
from testbed.topologies.model import Topology

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,14}")  # 15 characters: what Linux allows an interface


def check(name: str, topology: Topology) -> None:
    """Check names, order of nodes, and both ends of each link.

    Raises:
        TopologyError: a rule is broken; ``name`` says whose topology it is.
    """
    kinds = [node.kind for node in topology.nodes]
    if "host" not in kinds:
        raise TopologyError(f"{name} has no host", fix='give it nodes of kind "host"')
    if kinds != sorted(kinds):
        raise TopologyError(f"{name} lists a switch before a host", fix="put every host before the first switch")
    for node, count in Counter(node.name for node in topology.nodes).items():
        if count > 1:
            raise TopologyError(f"{name} has {count} nodes named {node!r}", fix="give each node a name of its own")
        if not _NAME.fullmatch(node):
            raise TopologyError(
                f"{name} has a node named {node!r}",
                fix="use a letter, then up to 14 letters, digits, dots, dashes or underscores",
            )
    for number, link in enumerate(topology.links):
        where = f"{name}: link {number}"
        for end in (link.a, link.b):
            if not 0 <= end < len(topology.nodes):
                raise TopologyError(f"{where} ends at node {end}", fix=f"use nodes 0 to {len(topology.nodes) - 1}")
        if link.a == link.b:
            raise TopologyError(f"{where} leads from {topology.nodes[link.a].name} to itself", fix="leave it out")
        if link.rate_bps < 1 or link.delay_s < 0:
            raise TopologyError(
                f"{where} has {link.rate_bps} bit/s and {link.delay_s} s of delay",
                fix="give it a rate above 0 and a delay of 0 or more",
            )
    _check_ports(name, topology)


def _check_ports(name: str, topology: Topology) -> None:
    used: list[list[int]] = [[] for _ in topology.nodes]
    for link in topology.links:
        used[link.a].append(link.a_port)
        used[link.b].append(link.b_port)
    for node, ports in zip(topology.nodes, used, strict=True):
        if sorted(ports) != list(range(len(ports))):
            raise TopologyError(
                f"{name}: {node.name} uses the ports {', '.join(map(str, sorted(ports)))}",
                fix=f"number its ports 0 to {len(ports) - 1}, one link each",
            )
