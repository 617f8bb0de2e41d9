"""Check of a topology from a user's own builder: whether it keeps the rules that everything else relies on."""

from __future__ import annotations

import re
from collections import Counter
from numbers import Real

from testbed.base.errors import TopologyError
from testbed.topologies.model import Path, Topology

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,14}")  # 15 characters: what Linux allows an interface
MOST_ASKED = 64
"""Hosts whose paths are checked, so that large networks take no time."""


def check(name: str, topology: Topology) -> None:
    """Check kinds, names and order of nodes, both ends and the rate of each link, and that there is a router.

    Raises:
        TopologyError: a rule is broken; ``name`` says whose topology it is.
    """
    kinds = [node.kind for node in topology.nodes]
    for kind in kinds:
        if kind not in ("host", "switch", "panel"):
            raise TopologyError(f"{name} has a node of kind {kind!r}", fix='give it the kind "host" or "switch"')
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
        if not all(isinstance(value, Real) for value in (link.rate_bps, link.delay_s)):
            raise TopologyError(
                f"{where} has the rate {link.rate_bps!r} and the delay {link.delay_s!r}",
                fix="give it the numbers rate_bps and delay_s that the function gets, or numbers made of them",
            )
        if not (link.rate_bps >= 1 and link.delay_s >= 0):
            raise TopologyError(
                f"{where} has {link.rate_bps} bit/s and {link.delay_s} s of delay",
                fix="give it a rate above 0 and a delay of 0 or more",
            )
    _check_ports(name, topology)
    if not callable(topology.router):
        raise TopologyError(
            f"{name}: its router is {topology.router!r}",
            fix="give it ShortestPaths() of testbed.topologies.shortest, or a function of (topology, src, dst)",
        )


def check_paths(name: str, topology: Topology) -> None:
    """Check paths between the first host and others, both ways. A scheme may need no path between them, so there may be
    none.

    Raises:
        TopologyError: the router returns something else than paths from the one host to the other.
    """
    for host in topology.hosts[1:MOST_ASKED]:
        for src, dst in ((0, host), (host, 0)):
            try:
                paths = topology.paths(src, dst)
            except TopologyError:
                continue
            ends = f"from {topology.nodes[src].name} to {topology.nodes[dst].name}"
            if not (isinstance(paths, tuple) and paths and all(isinstance(path, Path) for path in paths)):
                problem = f"{name}: its router returns {paths!r:.100} for the way {ends}"
                raise TopologyError(problem, fix="return a tuple of testbed.topologies.model.Path, one or more")
            for path in paths:
                if not _leads(topology, path, src, dst):
                    raise TopologyError(
                        f"{name}: the links {path.links!r:.100} of a path do not lead {ends}",
                        fix="list directed links in order: link i is 2 * i from a to b, and 2 * i + 1 from b to a",
                    )


def _leads(topology: Topology, path: Path, src: int, dst: int) -> bool:
    here = src
    for link in path.links:
        if link not in range(2 * len(topology.links)) or topology.tail(link) != here:
            return False
        here = topology.head(link)
    return here == dst


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
