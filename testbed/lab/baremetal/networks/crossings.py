"""Expected rates of the network between racks: bursts for links that no host's NIC is at.

Such links are neither shaped nor counted here: they are what they are. So hosts under one switch all send to hosts
under another, and what arrives of all of them together is held against what the topology's links would let through.
Where these would let the NICs send as they like, one that is slower is found, and one that is faster is no matter;
where they are to hold NICs back, both are found.

Racks send in a ring, and in each round a rack only sends or only receives, so that no acknowledgement waits behind a
burst. Where links between switches are slower than NICs, bursts between racks do not show what those NICs can do; then
hosts send within their rack, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.lab.baremetal.networks.network import between_switches
from testbed.lab.baremetal.networks.racks import under
from testbed.topologies.model import Topology
from testbed.topologies.sharing import fair_bps, loads

Flow = tuple[int, int]
"""Source host and destination host."""
Crowd = list[tuple[int, int, tuple[Flow, ...]]]
"""Flows that run at once, by the two between which their sum counts."""


@dataclass(frozen=True)
class Crossing:
    """Bursts that are judged by their sum: between two switches, or, of one host, within a rack."""

    src: int
    dst: int
    flows: tuple[Flow, ...]
    rates_bps: tuple[float, ...]
    """Rate that each flow should have, headers included, while all flows of its round run (bit/s)."""


def rounds(topology: Topology) -> list[list[Crossing]]:
    """List the bursts to measure, round after round; empty where every link has a host at one end."""
    between = between_switches(topology)
    if not between:
        return []
    members = under(topology)
    crowds: list[Crowd] = [
        [(src, dst, tuple(zip(members[src], members[dst], strict=False))) for src, dst in one]
        for one in _alternating(list(members))
    ]
    nic_bps = max(topology.links[topology.ports[host][0] // 2].rate_bps for host in topology.hosts)
    if min(topology.links[link].rate_bps for link in between) < nic_bps:
        inside: Crowd = [(a, b, ((a, b),)) for hosts in members.values() if len(hosts) > 1 for a, b in _ring(hosts)]
        crowds += [inside] if inside else []
    return [_expected(topology, one) for one in crowds]


def pairs(topology: Topology) -> set[Flow]:
    """Pairs of hosts that send to each other."""
    return {flow for one in rounds(topology) for crossing in one for flow in crossing.flows}


def _ring(members: Sequence[int]) -> list[Flow]:
    return list(zip(members, [*members[1:], members[0]], strict=True))


def _alternating(switches: Sequence[int]) -> list[list[Flow]]:
    """Divide a ring of switches into rounds in each of which nobody both sends and receives: two, or three if the
    number of switches is odd."""
    if len(switches) < 2:
        return []
    edges = _ring(switches)
    last = [edges.pop()] if len(edges) % 2 else []
    return [one for one in (edges[::2], edges[1::2], last) if one]


def _expected(topology: Topology, crowd: Crowd) -> list[Crossing]:
    flows = [flow for _, _, some in crowd for flow in some]
    rates = iter(fair_bps([loads(topology, flow) for flow in flows], topology))
    return [Crossing(src, dst, some, tuple(next(rates) for _ in some)) for src, dst, some in crowd]
