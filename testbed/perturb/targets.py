"""Targets of perturbations: nodes and directed links, from names in a spec."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from testbed.base.errors import SpecError
from testbed.base.listing import shortened
from testbed.base.nearest import nearest
from testbed.topologies.model import Topology
from testbed.topologies.panels import Panels

Direction = Literal["both", "out", "in"]
_GROUP = re.compile(r"(rack|level) (\d+)")
"""Pattern of a rack's or a level's name. No node has such a name, for names have no blanks."""


class Rank(IntEnum):
    """Rank of a name: the narrower, the higher."""

    LEVEL = 0
    RACK = 1
    NODE = 2
    NIC = 3
    LINK = 4


@dataclass(frozen=True)
class Target:
    """Directed links that a name stands for: those that leave it, or lead up from below a level."""

    rank: Rank
    away: tuple[int, ...]


def node(topology: Topology, name: str) -> int:
    """Index of a node.

    Raises:
        SpecError: there is no such node.
    """
    if name not in topology.index:
        raise SpecError(f"{topology.expression} has no node {name!r}", fix=nearest(name, list(topology.index)))
    return topology.index[name]


def reached(topology: Topology, processes: Mapping[str, int], name: str) -> list[str]:
    """Names of everything that ends, or stands still, with a node or a process: the name itself, then the processes on
    that node.

    Args:
        processes: the node of each process of the trial, by the process's name.

    Raises:
        SpecError: there is neither such a node nor such a process.
    """
    if name in processes and name not in topology.index:
        return [name]
    if name not in topology.index:
        known = [*topology.index, *(one for one in processes if one not in topology.index)]
        raise SpecError(f"{topology.expression} has no node {name!r}", fix=nearest(name, known))
    there = topology.index[name]
    return list(dict.fromkeys([name, *(process for process, node in processes.items() if node == there)]))


def hosts(topology: Topology, names: Sequence[str] | None) -> list[int]:
    """Indices of hosts; all where no names are given.

    Raises:
        SpecError: there is no such host.
    """
    if names is None:
        return list(topology.hosts)
    found = [node(topology, name) for name in names]
    for index, name in zip(found, names, strict=True):
        if index not in topology.hosts:
            raise SpecError(f"{name} is a switch; this perturbation applies to hosts", fix="name hosts, such as h0")
    return found


def links(topology: Topology, names: Sequence[str] | None, direction: Direction) -> list[int]:
    """Directed links that names stand for, each once, in order.

    Raises:
        SpecError: as :func:`named`.
    """
    away = (
        [link for host in topology.hosts for link in topology.ports[host]]
        if names is None
        else [link for name in names for link in named(topology, name).away]
    )
    found = {
        *(away if direction != "in" else ()),
        *((link ^ 1 for link in away) if direction != "out" else ()),
    }
    return sorted(found)


def label(topology: Topology, link: int) -> str:
    """Name a directed link for a reader: ``h0:eth0 -> s0``."""
    tail, head = topology.nodes[topology.tail(link)].name, topology.nodes[topology.head(link)].name
    return f"{tail}:eth{topology.port_at_tail(link)} -> {head}"


def labels(topology: Topology, links: Sequence[int]) -> str:
    """Names of the first links, and how many more there are."""
    return shortened([label(topology, link) for link in links], 3)


def rate_bps(topology: Topology, link: int) -> int:
    """Rate with which a directed link was built (bit/s)."""
    return topology.links[link // 2].rate_bps


def named(topology: Topology, name: str) -> Target:
    """Find what a name stands for: all links of a node (``h0``), of one NIC (``h0:eth1``), between two nodes
    (``h0-s0``), of a rack's hosts (``rack 0``), or up to the switches of a level (``level 1``).

    Raises:
        SpecError: the name has none of these forms, or there is no such thing.
    """
    if name in topology.index:
        return Target(Rank.NODE, topology.ports[topology.index[name]])
    group = _GROUP.fullmatch(name)
    if group:
        return _of_rack(topology, int(group[2])) if group[1] == "rack" else _of_level(topology, int(group[2]))
    first, colon, port = name.partition(":")
    if colon:
        leaving = {f"eth{topology.port_at_tail(link)}": link for link in topology.ports[node(topology, first)]}
        if port not in leaving:
            raise SpecError(f"{first} has no NIC {port!r}", fix=f"use one of: {', '.join(leaving)}")
        return Target(Rank.NIC, (leaving[port],))
    cuts = [(name[:at], name[at + 1 :]) for at, character in enumerate(name) if character == "-"]
    if not cuts:
        node(topology, name)
    first, second = next((cut for cut in cuts if all(end in topology.index for end in cut)), cuts[0])
    a, b = node(topology, first), node(topology, second)
    found = tuple(link for link in topology.ports[a] if topology.head(link) == b)
    if not found:
        met = sorted({topology.nodes[topology.head(link)].name for link in topology.ports[a]})
        raise SpecError(f"no link joins {first} and {second}", fix=f"{first} is linked to {', '.join(met)}")
    return Target(Rank.LINK, found)


def _of_rack(topology: Topology, number: int) -> Target:
    inside = [host for host in topology.hosts if topology.nodes[host].rack == number]
    if not inside:
        racks = sorted({rack for host in topology.hosts if (rack := topology.nodes[host].rack) is not None})
        there = f"it has {_numbered('rack', racks)}" if racks else "it has no racks: name nodes, such as h0"
        raise SpecError(f"{topology.expression} has no rack {number}", fix=there)
    return Target(Rank.RACK, tuple(link for host in inside for link in topology.ports[host]))


def _of_level(topology: Topology, number: int) -> Target:
    """Target of a level. A link belongs to the level of its higher end."""
    found: dict[int, list[int]] = {}
    for i, link in enumerate(topology.links):
        a, b = topology.nodes[link.a].level, topology.nodes[link.b].level
        found.setdefault(max(a, b), []).append(2 * i + (a > b))
    if number not in found:
        there = f"it has {_numbered('level', sorted(found))}"
        raise SpecError(f"{topology.expression} has no links up to a level {number}", fix=there)
    return Target(Rank.LEVEL, tuple(found[number]))


def _numbered(what: str, numbers: Sequence[int]) -> str:
    return shortened([f"{what} {number}" for number in numbers], 12)


def panels(topology: Topology) -> Panels:
    """
    Raises:
        SpecError: the network has none.
    """
    if topology.panels is None:
        raise SpecError(
            f"{topology.expression} has no patch panels", fix="write it at the arm that has them, in its own perturb"
        )
    return topology.panels
