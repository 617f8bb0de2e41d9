"""Places of nodes in a round picture. A dragonfly: groups around a circle, hosts outside, global links across.

In rows, as other networks are drawn, the links of a group would run through its routers, which are all of one level.
"""

from __future__ import annotations

import math

from testbed.topologies.model import Topology

_HOST_PX, _ROUTER_PX, _LINK_PX, _MARGIN_PX = 49, 54, 60, 30
_LEAST_PX = 480  # for the legend
ROOM_PX = 42
"""Largest width of a node's box; boxes are 22 high, so none touches another 48 away in any direction."""
_FAN = math.radians(150)
"""The part of a group's own circle that its routers and hosts take, on the side away from the middle."""

Place = tuple[float, float]


def places(
    topology: Topology, routers_per_group: int
) -> tuple[int, dict[int, Place], list[tuple[float, float, float]]]:
    """Return the width of a square, a place in it for the middle of each node, and around each group a circle (px)."""
    routers, hosts = len(topology.switches), topology.host_count
    groups, hosts_each = routers // routers_per_group, hosts // routers
    inner = max(routers_per_group * _ROUTER_PX, routers_per_group * hosts_each * _HOST_PX - _LINK_PX * _FAN) / _FAN
    outer = inner + _LINK_PX
    radius = (2 * outer + _HOST_PX) / (2 * math.sin(math.pi / groups))
    half = max(radius + outer + _MARGIN_PX, _LEAST_PX / 2)
    found: dict[int, Place] = {}
    circles = {}
    for router in range(routers):
        group, i = divmod(router, routers_per_group)
        outwards = 2 * math.pi * group / groups - math.pi / 2  # the first group at the top, the others clockwise
        centre = _at((half, half), radius, outwards)
        circles[group] = (*centre, outer + _HOST_PX / 2 - 1)
        sector = _FAN / routers_per_group
        first = outwards - _FAN / 2 + i * sector
        found[hosts + router] = _at(centre, inner, first + sector / 2)
        for place in range(hosts_each):
            angle = first + sector * (place + 0.5) / hosts_each
            found[router * hosts_each + place] = _at(centre, outer, angle)
    return math.ceil(2 * half), found, list(circles.values())


def ring(hosts: int) -> tuple[int, dict[int, Place]]:
    """Return width and places, as :func:`places`, for hosts alone, the first at the top, the others clockwise: circuits
    and direct links are chords."""
    radius = max(hosts * _HOST_PX / (2 * math.pi), _LEAST_PX / 2 - _MARGIN_PX)
    half = radius + _MARGIN_PX
    turns = {host: 2 * math.pi * host / hosts - math.pi / 2 for host in range(hosts)}
    return math.ceil(2 * half), {host: _at((half, half), radius, turn) for host, turn in turns.items()}


def _at(centre: Place, radius: float, angle: float) -> Place:
    return centre[0] + radius * math.cos(angle), centre[1] + radius * math.sin(angle)
