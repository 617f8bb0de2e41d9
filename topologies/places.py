"""Names, places and marks of pictures: racks, pods, groups and rows; circuits of patch panels by their purpose, a ring
or the matching of a panel; nodes around a circle; and what pictures are made of, with its colours.

A dragonfly is round: groups around a circle, hosts outside, global links across. In rows, as other networks are drawn,
the links of a group would run through its routers, which are all of one level.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from html import escape
from itertools import pairwise

from testbed.topologies.fat_tree import pod_of
from testbed.topologies.model import Topology

HOST, SWITCH, LINK = "#2b6cb0", "#5f6b7a", "#8b95a3"  # each stands out from white and from black
AGGREGATOR = "#b0562b"  # a switch that adds
RINGS = ("#2b6cb0", "#c77d18", "#1a8a5a", "#a3418f", "#7a6a00", "#c0392b")  # circuits, by the ring they are part of
NODE_PX = 22
_SMALLEST_FONT_PX = 6


def opening(width: int, height: int, label: str) -> str:
    """Return the tag that a picture begins with; it shrinks with the page that it is in."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="100%" '
        f'style="max-width:{width}px;height:auto" role="img" aria-label="{escape(label)}" '
        f'font-family="system-ui,sans-serif" font-size="12">'
    )


def label(x: float, y: float, text: str, *, middle: bool = False) -> str:
    """Draw words beside the marks, in the colour of the page's text, from (x, y) on or around it."""
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{anchor} fill="currentColor" opacity="0.75">{escape(text)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float, tip: str) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width:.1f}">'
        f"<title>{escape(tip)}</title></line>"
    )


def box_size(longest_name: int, room_px: float) -> tuple[float, float]:
    """Return (width, font size) of a node's box whose name has so many letters, where it has so much room."""
    width_px = min(14 + 7.5 * longest_name, room_px)
    return width_px, min(12.0, (width_px - 4) / (0.62 * longest_name))


def box(x: float, y: float, size: tuple[float, float], name: str, tip: str, colour: str, is_round: bool) -> str:
    """Draw a node around (x, y), with its name in it as far as that can be read at that size; the tooltip always has
    it."""
    width, font_px = size
    text = ""
    if font_px >= _SMALLEST_FONT_PX:
        text = (
            f'<text x="{x:.1f}" y="{y + font_px * 0.35:.1f}" text-anchor="middle" font-size="{font_px:.1f}" '
            f'fill="#fff">{escape(name)}</text>'
        )
    return (
        f"<g><title>{escape(tip)}</title>"
        f'<rect x="{x - width / 2:.1f}" y="{y - NODE_PX / 2:.1f}" width="{width:.1f}" height="{NODE_PX}" '
        f'rx="{min(width / 2, 11) if is_round else 3:.1f}" fill="{colour}"/>{text}</g>'
    )


_ROWS = {
    "star": {0: "hosts", 1: "switch"},
    "fat_tree": {0: "hosts", 1: "edge", 2: "aggregation", 3: "core"},
    "cloud": {0: "hosts", 1: "rack", 2: "row", 3: "core"},
    "spine_leaf": {0: "hosts", 1: "leaf", 2: "spine"},
}


def row_name(topology: Topology, level: int) -> str:
    """Name the nodes of a level: a fat-tree's ``edge``, a BCube's ``level 0``."""
    if level == 0:
        return "hosts"
    if topology.family == "bcube":
        return f"level {level - 1}"  # its own count, from 0
    return _ROWS.get(topology.family, {}).get(level, f"level {level}")


def frames(topology: Topology) -> dict[str, list[int]]:
    """Return by label the nodes of each rack, pod or dragonfly group; empty where there is one at most."""
    found: dict[str, list[int]] = defaultdict(list)
    for i in range(len(topology.nodes)):
        label = _frame(topology, i)
        if label:
            found[label].append(i)
    return dict(found) if len(found) > 1 else {}


def _frame(topology: Topology, i: int) -> str:
    node = topology.nodes[i]
    size = topology.params.get({"fat_tree": "k", "dragonfly": "a"}.get(topology.family, ""))
    if topology.family == "fat_tree" and isinstance(size, int):
        half = size // 2
        if node.level == 2:
            return f"pod {pod_of(node)}"
        return "" if node.rack is None else f"pod {node.rack // half}"
    if topology.family == "dragonfly" and isinstance(size, int):
        routers = len(topology.switches)
        router = i - topology.host_count if node.kind == "switch" else i // (topology.host_count // routers)
        return f"group {router // size}"
    return "" if node.rack is None else f"rack {node.rack}"


_HOST_PX, _ROUTER_PX, _LINK_PX, _MARGIN_PX = 49, 54, 60, 30
_LEAST_PX = 480  # for the legend
ROOM_PX = 42
"""Largest width of a node's box; boxes are 22 high, so none touches another 48 away in any direction."""
_FAN = math.radians(150)
"""The part of a group's own circle that its routers and hosts take, on the side away from the middle."""

Place = tuple[float, float]


def dragonfly_places(
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


def ring_places(hosts: int) -> tuple[int, dict[int, Place]]:
    """Return width and places for hosts alone, clockwise from the top: circuits and direct links are chords."""
    radius = max(hosts * _HOST_PX / (2 * math.pi), _LEAST_PX / 2 - _MARGIN_PX)
    half = radius + _MARGIN_PX
    turns = {host: 2 * math.pi * host / hosts - math.pi / 2 for host in range(hosts)}
    return math.ceil(2 * half), {host: _at((half, half), radius, turn) for host, turn in turns.items()}


def _at(centre: Place, radius: float, angle: float) -> Place:
    return centre[0] + radius * math.cos(angle), centre[1] + radius * math.sin(angle)


Circuit = tuple[int, int, int]
"""Interface, and two servers, the lower first."""


def circuit_names(topology: Topology) -> dict[Circuit, str]:
    """Name each lit circuit: ``ring of stride 3``, ``ring 2`` for one in an order of its own, or ``panel 4``.

    Rings over all servers have two panels each. On the panels after those a circuit is a ring's if it joins two of its
    neighbours, and if ``circuits`` does not name it.
    """
    assert topology.panels is not None
    rings = [(_name(place, ring), _order(topology, ring)) for place, ring in enumerate(_rings(topology), 1)]
    whole = [name for name, order in rings if len(order) == topology.host_count for _ in range(2)]
    smaller_last = sorted(rings, key=lambda ring: -len(ring[1]))  # in a picture a small ring is more than a ring's rest
    owner = {pair: name for name, order in smaller_last for pair in _neighbours(order)}
    found = {}
    for panel, pairs in enumerate(topology.panels.lit):
        given = _given(topology, panel - len(whole))
        for a, b in pairs:
            shared = f"panel {panel}" if f"{a}-{b}" in given else owner.get((a, b), f"panel {panel}")
            found[panel, a, b] = whole[panel] if panel < len(whole) else shared
    return found


def _rings(topology: Topology) -> Sequence[object]:
    given = topology.params.get("rings", () if "circuits" in topology.params else (1,))
    return given if isinstance(given, list | tuple) else ()


def _name(place: int, ring: object) -> str:
    return f"ring of stride {ring}" if isinstance(ring, int) else f"ring {place}"


def _order(topology: Topology, ring: object) -> list[int]:
    if isinstance(ring, int):
        return [step * ring % topology.host_count for step in topology.hosts]
    return list(ring) if isinstance(ring, list | tuple) else []


def _neighbours(order: Sequence[int]) -> list[tuple[int, int]]:
    return [(min(pair), max(pair)) for pair in pairwise([*order, order[0]])] if order else []


def _given(topology: Topology, place: int) -> set[str]:
    """Return the circuits of a list of ``circuits``, as that writes them, and the other way round."""
    lists = topology.params.get("circuits", ())
    if not isinstance(lists, list | tuple) or not 0 <= place < len(lists):
        return set()
    words = [str(word).split("-") for word in lists[place]]
    return {"-".join(ends) for word in words for ends in (word, word[::-1])}
