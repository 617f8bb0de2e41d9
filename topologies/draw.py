"""Pictures of a network: where each node goes, an SVG coloured by load, and a drawing for the terminal."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from testbed.base.errors import TopologyError
from testbed.base.listing import counted
from testbed.base.units import time_text
from testbed.topologies.model import Topology
from testbed.topologies.panels import Panels
from testbed.topologies.places import (
    AGGREGATOR,
    HOST,
    LINK,
    NODE_PX,
    RINGS,
    ROOM_PX,
    SWITCH,
    box,
    box_size,
    circuit_names,
    dragonfly_places,
    frames,
    label,
    line,
    opening,
    ring_places,
    row_name,
)

MOST_NODES = 400
"""Nodes up to which a picture can be read."""

_LOAD = ((0.0, (139, 149, 163)), (0.5, (240, 160, 32)), (1.0, (214, 40, 57)))  # grey, amber, red
_MARGIN_PX, _LEGEND_PX, _KEY_ROW_PX = 24, 40, 20
_LANE_PX = 5
_NAMES_PX = 84
"""Width on the left, for the names of rows."""
_CROWDED = 40
"""Nodes in a row from which on every other one is moved down, so that names stay legible."""
_STAGGER_PX = NODE_PX + 4
_FRAME_PX = 12
_STUB_PX = 29
"""Length of a dark port's line, from the middle of its server to beyond the server's box."""
_THINNEST_PX, _THICKEST_PX = 1.4, 4.5


def layout(topology: Topology) -> dict[int, tuple[float, float]]:
    """Place each node in the unit box, (0, 0) at the top left: a row per level, hosts at the bottom, racks side by
    side. Where NICs lead to switches of several levels (BCube), the lowest is beneath the hosts."""
    rows: dict[int, list[int]] = defaultdict(list)
    for i, node in enumerate(topology.nodes):
        rows[node.level].append(i)
    order = sorted(rows, reverse=True)
    levels = {topology.nodes[topology.head(d)].level for h in topology.hosts for d in topology.ports[h]} - {0}
    host_centric = len(levels) > 1
    if host_centric:
        order[-2:] = reversed(order[-2:])
    places: dict[int, tuple[float, float]] = {}
    for row, level in enumerate(order):
        # From the third level on, a line to a host would run through the switches of the row between.
        aside = 0.3 if host_centric and level > 2 and level % 2 else 0.0
        across = _by_rack(topology, rows[level]) if level == 0 else _evenly(rows[level], aside)
        places |= {i: (x, (row + 0.5) / len(order)) for i, x in across.items()}
    return places


def _evenly(nodes: list[int], aside: float = 0.0) -> dict[int, float]:
    return {node: (place + 0.5 + aside) / (len(nodes) + aside) for place, node in enumerate(nodes)}


def _by_rack(topology: Topology, hosts: list[int]) -> dict[int, float]:
    """Place hosts by rack, or by the switch that they are at, with a gap to the next."""
    racks: dict[int, list[int]] = defaultdict(list)
    for host in hosts:
        racks[_rack(topology, host)].append(host)
    gap, left = 0.1 if len(racks) > 1 else 0.0, 0
    found = {}
    for _, members in sorted(racks.items()):
        for host, x in _evenly(members).items():
            found[host] = (left + len(members) * (gap + (1 - 2 * gap) * x)) / len(hosts)
        left += len(members)
    return found


def _rack(topology: Topology, host: int) -> int:
    rack = topology.nodes[host].rack
    return topology.head(topology.ports[host][0]) if rack is None and topology.ports[host] else rack or 0


def svg(
    topology: Topology,
    link_values: Mapping[int, float] | None = None,
    *,
    label: str = "load",
    as_text: Callable[[float], str] = "{:.3g}".format,
    highest: float | None = None,
) -> str:
    """Draw a picture that stands alone or goes into a page, and is readable on a light and on a dark background.

    Args:
        link_values: by directed link, a value to colour it by; each link then has two lanes, traffic keeping right.
            Links without one are grey, and called not counted.
        label: what the values are, for the legend.
        as_text: writes a value with its unit, for tooltips and the legend.
        highest: the value that is drawn in full red; the largest one by default.

    Raises:
        TopologyError: the network has more than ``MOST_NODES`` nodes.
    """
    if len(topology.nodes) > MOST_NODES:
        raise TopologyError(
            f"{topology.expression} has {len(topology.nodes):,} nodes; a picture shows at most {MOST_NODES}",
            fix="draw a smaller network of the same family",
        )
    canvas = _canvas(topology)
    load = None
    if link_values is not None:
        load = _Load(link_values, label, as_text, highest or max(link_values.values(), default=0.0))
    key = [] if load else _key(topology)
    rows = 1 + max((row for _, row in _places(canvas, key)), default=0)
    height = canvas.height + (_LEGEND_PX + (rows - 1) * _KEY_ROW_PX if load or key else 0)
    colours = {} if load else _colours(topology)
    parts = [opening(canvas.width, height, topology.expression), *_frames(topology, canvas)]
    for link, out in _shown(topology):
        parts += [_lane(topology, canvas, *one, load) for one in ((link, out), (out ^ 1, link ^ 1))] if load else []
        parts += [] if load else [_cable(topology, canvas, (link, out), colours.get(link, LINK))]
    parts += [] if load else _dark_ports(topology, canvas)
    parts += [_node(topology, canvas, node) for node in sorted(canvas.places)]
    parts += [_legend(canvas, load)] if load else [_drawn_key(canvas, key)] if key else []
    return "\n".join([*parts, "</svg>\n"])


def _shown(topology: Topology) -> list[tuple[int, int]]:
    """List the directed links that each line begins and ends with: behind patch panels, those of a circuit."""
    if topology.panels is not None:
        return [(link, out) for link, out in topology.circuits.items() if link < out]
    return [(2 * link, 2 * link) for link in range(len(topology.links))]


@dataclass(frozen=True)
class _Canvas:
    """Pixels of the view box: its size, middle and (width, font size) of each node, heights of ``rows`` by level, and
    centre and radius of each frame in a round picture."""

    width: int
    height: int
    places: dict[int, tuple[float, float]]
    boxes: dict[int, tuple[float, float]]
    rows: dict[int, float] = field(default_factory=dict)
    circles: dict[str, tuple[float, float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Load:
    """Values by which links are coloured; see :func:`svg`."""

    values: Mapping[int, float]
    label: str
    as_text: Callable[[float], str]
    highest: float

    def part(self, directed: int) -> float:
        """Return the value of a directed link over the highest, at most 1."""
        return min(1.0, self.values[directed] / self.highest) if self.highest > 0 else 0.0


def _canvas(topology: Topology) -> _Canvas:
    routers_per_group = topology.params.get("a")
    if topology.family == "dragonfly" and isinstance(routers_per_group, int):
        width, places, circles = dragonfly_places(topology, routers_per_group)
        return _round_canvas(topology, width, places, circles)
    if topology.panels is not None or not topology.switches:
        return _round_canvas(topology, *ring_places(topology.host_count), [])
    unit = layout(topology)
    rows: dict[float, list[int]] = defaultdict(list)
    for i, (_, y) in unit.items():
        rows[y].append(i)
    most = max(map(len, rows.values()))
    width = max(480, min(1600, 62 * most), min(2400, 19 * most))
    row_px = min(190, max(110, width // 9))
    lowest = row_px * (len(rows) - 1) + 2 * _MARGIN_PX + (_STAGGER_PX if len(rows[max(rows)]) > _CROWDED else 0)
    lowest += _FRAME_PX if frames(topology) else 0
    places, boxes, heights = {}, {}, {}
    for y, nodes in rows.items():
        crowded = len(nodes) > _CROWDED
        room_px = (1.2 if crowded else 0.72) * width / len(nodes)
        size = box_size(max(len(topology.nodes[i].name) for i in nodes), room_px)
        top = _MARGIN_PX + (y * len(rows) - 0.5) * row_px
        heights[topology.nodes[nodes[0]].level] = top
        for i in nodes:
            down = _STAGGER_PX if crowded and i % 2 else 0
            places[i], boxes[i] = (_NAMES_PX + unit[i][0] * width, top + down), size
    return _Canvas(width + _NAMES_PX + _FRAME_PX, lowest, places, boxes, heights)


def _round_canvas(
    topology: Topology,
    width: int,
    places: dict[int, tuple[float, float]],
    circles: Sequence[tuple[float, float, float]],
) -> _Canvas:
    longest: dict[str, int] = defaultdict(int)
    for i in places:
        node = topology.nodes[i]
        longest[node.kind] = max(longest[node.kind], len(node.name))
    sizes = {kind: box_size(letters, ROOM_PX) for kind, letters in longest.items()}
    named = dict(zip(frames(topology), circles, strict=False))  # none of a picture that has no frames
    return _Canvas(width, width, places, {i: sizes[topology.nodes[i].kind] for i in places}, {}, named)


def _frames(topology: Topology, canvas: _Canvas) -> list[str]:
    parts = [label(4, y + 4, row_name(topology, level)) for level, y in sorted(canvas.rows.items())]
    for name, nodes in frames(topology).items():
        parts.append(_circle(name, canvas) if canvas.circles else _frame(name, nodes, canvas))
    return parts


def _frame(name: str, nodes: Sequence[int], canvas: _Canvas) -> str:
    left = min(canvas.places[i][0] - canvas.boxes[i][0] / 2 for i in nodes) - 2
    right = max(canvas.places[i][0] + canvas.boxes[i][0] / 2 for i in nodes) + 2
    heights = [canvas.places[i][1] for i in nodes]
    top, bottom = min(heights) - NODE_PX / 2 - 5, max(heights) + NODE_PX / 2 + _FRAME_PX + 5
    shape = f"M{left:.1f} {top:.1f}H{right:.1f}V{bottom:.1f}H{left:.1f}z"
    return (
        f'<path d="{shape}" fill="currentColor" fill-opacity="0.06"/>'
        f"{label((left + right) / 2, bottom - 4, name, middle=True)}"
    )


def _circle(name: str, canvas: _Canvas) -> str:
    """Draw a frame around a group, its name on the side towards the middle of the picture."""
    x, y, radius = canvas.circles[name]
    middle = canvas.width / 2
    inwards = 0.75 * radius / (math.hypot(middle - x, middle - y) or 1.0)
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="currentColor" fill-opacity="0.06"/>'
        f"{label(x + (middle - x) * inwards, y + (middle - y) * inwards, name, middle=True)}"
    )


def _key(topology: Topology) -> list[tuple[str, str, float]]:
    """List the meanings of colours and widths of links, where they differ: (name, colour, width)."""
    if topology.panels is not None:
        dark = [("dark port", LINK, 1.0)] if any(_dark(topology, host) for host in topology.hosts) else []
        return [(name, colour, 2.0) for name, colour in _circuit_colours(topology).items()] + dark
    rates = sorted({link.rate_bps for link in topology.links})
    return [(_rate(rate), LINK, _width(topology, rate)) for rate in rates] if len(rates) > 1 else []


def _drawn_key(canvas: _Canvas, key: Sequence[tuple[str, str, float]]) -> str:
    parts = []
    for (name, colour, width), (x, row) in zip(key, _places(canvas, key), strict=True):
        y = canvas.height + 16 + row * _KEY_ROW_PX
        parts += [line(x, y, x + 26, y, colour, width, name), label(x + 32, y + 4, name)]
    return "".join(parts)


def _places(canvas: _Canvas, key: Sequence[tuple[str, str, float]]) -> list[tuple[float, int]]:
    """Return where each entry of the key begins, and its row."""
    x, row = 16.0, 0
    found: list[tuple[float, int]] = []
    for name, _, _ in key:
        wide = 48 + 7 * len(name)
        if found and x + wide > canvas.width:
            x, row = 16.0, row + 1
        found.append((x, row))
        x += wide
    return found


def _width(topology: Topology, rate_bps: int) -> float:
    """Return the width of a link: faster ones are thicker, by the root of the rate over the slowest."""
    slowest = min(link.rate_bps for link in topology.links)
    return min(_THICKEST_PX, _THINNEST_PX * math.sqrt(rate_bps / slowest))


def _cable(topology: Topology, canvas: _Canvas, directed: tuple[int, int], colour: str) -> str:
    """Draw a link, or a circuit from the link into a panel to the link out of it."""
    link, out = directed
    (x1, y1), (x2, y2) = canvas.places[topology.tail(link)], canvas.places[topology.head(out)]
    rate_bps = min(topology.links[one // 2].rate_bps for one in (link, out))
    delay_s = sum(topology.links[one // 2].delay_s for one in {link, out})
    delay = f", {time_text(delay_s)}" if delay_s else ""
    tip = f"{_ends(topology, link, out, '–')}: {_rate(rate_bps)}{delay}"
    return line(x1, y1, x2, y2, colour, _width(topology, rate_bps), tip)


def _circuit_colours(topology: Topology) -> dict[str, str]:
    names = dict.fromkeys(circuit_names(topology).values())
    return {name: RINGS[place % len(RINGS)] for place, name in enumerate(names)}


def _colours(topology: Topology) -> dict[int, str]:
    """Return the colour of the circuit of each directed link into a panel; empty where there are no panels."""
    if topology.panels is None:
        return {}
    names, colours = circuit_names(topology), _circuit_colours(topology)
    found = {}
    for link, out in topology.circuits.items():
        a, b = sorted((topology.tail(link), topology.head(out)))
        found[link] = colours[names[topology.port_at_tail(link), a, b]]
    return found


def _dark(topology: Topology, host: int) -> list[int]:
    lit = topology.circuits
    return [interface for interface, link in enumerate(topology.ports[host]) if link not in lit]


def _dark_ports(topology: Topology, canvas: _Canvas) -> list[str]:
    """Draw a stub on the outside of each server that has dark ports."""
    middle, found = canvas.width / 2, []
    for host in topology.hosts if topology.panels is not None else ():
        if dark := _dark(topology, host):
            x, y = canvas.places[host]
            outwards = _STUB_PX / math.hypot(x - middle, y - middle)
            tip = f"{topology.nodes[host].name}: dark at {', '.join(f'p{interface}' for interface in dark)}"
            found.append(line(x, y, x + (x - middle) * outwards, y + (y - middle) * outwards, LINK, 1.0, tip))
    return found


def _lane(topology: Topology, canvas: _Canvas, directed: int, out: int, load: _Load) -> str:
    """Draw one direction of a link or circuit, moved to its right by half the distance between lanes."""
    (x1, y1), (x2, y2) = canvas.places[topology.tail(directed)], canvas.places[topology.head(out)]
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    right_x, right_y = _LANE_PX / 2 * (y1 - y2) / length, _LANE_PX / 2 * (x2 - x1) / length
    ends, place = _ends(topology, directed, out, "→"), (x1 + right_x, y1 + right_y, x2 + right_x, y2 + right_y)
    if directed not in load.values:
        return line(*place, LINK, 1.2, f"{ends}: not counted")
    part = load.part(directed)
    return line(*place, _colour(part), 1.2 + 2 * part, f"{ends}: {load.as_text(load.values[directed])}")


def _node(topology: Topology, canvas: _Canvas, i: int) -> str:
    node, (x, y) = topology.nodes[i], canvas.places[i]
    is_host = node.kind == "host"
    rack = "" if node.rack is None else f", rack {node.rack}"
    tip = f"{node.name}: {node.kind}{rack}, {len(topology.ports[i])} ports"
    return box(x, y, canvas.boxes[i], node.name, tip, HOST if is_host else AGGREGATOR if node.ina else SWITCH, is_host)


def _legend(canvas: _Canvas, load: _Load) -> str:
    """Draw a colour bar; swatches rather than a gradient, whose id could clash with another picture's in one page."""
    y, steps, step_px, left = canvas.height + 6, 24, 5, 16
    swatches = "".join(
        f'<rect x="{left + step_px * i}" y="{y}" width="5.5" height="10" fill="{_colour(i / (steps - 1))}"/>'
        for i in range(steps)
    )
    right = left + steps * step_px
    return (
        f'{swatches}<g fill="currentColor"><text x="{left}" y="{y + 24}">0</text>'
        f'<text x="{right}" y="{y + 24}" text-anchor="end">{escape(load.as_text(load.highest))}</text>'
        f'<text x="{right + 12}" y="{y + 9}">{escape(load.label)}</text>'
        f'<text x="{right + 12}" y="{y + 24}" opacity="0.75">one lane per direction, traffic keeps right</text></g>'
    )


def _colour(part: float) -> str:
    """Mix a colour between the stops of ``_LOAD`` in a straight line."""
    for (low, low_rgb), (high, high_rgb) in pairwise(_LOAD):
        if part <= high:
            share = (part - low) / (high - low)
            return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in zip(low_rgb, high_rgb, strict=True))
    raise ValueError(f"{part} is not a part of 1")


def _ends(topology: Topology, directed: int, out: int, arrow: str) -> str:
    over = "" if directed == out else f" over {topology.nodes[topology.head(directed)].name}"
    return f"{topology.nodes[topology.tail(directed)].name} {arrow} {topology.nodes[topology.head(out)].name}{over}"


def _rate(rate_bps: int) -> str:
    for unit, size in (("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3)):
        if rate_bps >= size:
            return f"{rate_bps / size:g} {unit}"
    return f"{rate_bps} bit/s"


def text(topology: Topology, most_lines: int = 40) -> str:
    """Draw the network for a terminal: per switch level, the highest first, each switch and what its ports lead to.

    Direct links between hosts follow. What patch panels join comes first. A level shows at most ``most_lines`` nodes,
    and says how many more there are.
    """
    blocks = [] if topology.panels is None else [_circuits(topology, topology.panels, most_lines)]
    for level in sorted({topology.nodes[s].level for s in _switches(topology)}, reverse=True):
        switches = [s for s in _switches(topology) if topology.nodes[s].level == level]
        title = f"level {level}: {counted(len(switches), 'switch')}"
        blocks.append(_block(topology, title, switches, most_lines))
    paired = [h for h in topology.hosts if any(topology.head(d) < topology.host_count for d in topology.ports[h])]
    if paired:
        blocks.append(_block(topology, f"hosts with direct links: {len(paired)}", paired, most_lines))
    return "\n".join(blocks)


def _switches(topology: Topology) -> list[int]:
    return [switch for switch in topology.switches if topology.nodes[switch].kind == "switch"]


def _circuits(topology: Topology, panels: Panels, most_lines: int) -> str:
    """List for each interface the servers that its panels join, and its dark ports."""
    count = len(panels.sides) * panels.degree
    lines = [f"{counted(count, 'patch panel')}, a port for each server at each"]
    for i, pairs in enumerate(panels.lit):
        names = [f"{topology.nodes[a].name}-{topology.nodes[b].name}" for a, b in pairs]
        used = {server for pair in pairs for server in pair}
        dark = [topology.nodes[server].name for server in topology.hosts if server not in used]
        lines.append(f"  p{i} -- {_some([*names, *(['dark:', *dark] if dark else [])])}")
    hidden = len(lines) - 1 - most_lines
    return "\n".join(lines if hidden <= 0 else [*lines[: most_lines + 1], f"  ... and {hidden:,} more"])


def _some(words: Sequence[str]) -> str:
    return " ".join(words if len(words) <= 16 else [*words[:15], f"... {len(words) - 15} more"])


def _block(topology: Topology, title: str, nodes: list[int], most_lines: int) -> str:
    shown = nodes[:most_lines]
    pad = max(len(topology.nodes[node].name) for node in shown)
    lines = [title] + [f"  {topology.nodes[node].name:<{pad}} -- {_neighbours(topology, node)}" for node in shown]
    if len(nodes) > len(shown):
        lines.append(f"  ... and {len(nodes) - len(shown):,} more")
    return "\n".join(lines)


def _neighbours(topology: Topology, node: int) -> str:
    """List the neighbours' names by port; runs of more than three nodes as ``h0..h8``, long lists cut short."""
    runs: list[list[int]] = []
    for directed in topology.ports[node]:
        head = topology.head(directed)
        if runs and head == runs[-1][-1] + 1 and topology.nodes[head].level == topology.nodes[runs[-1][-1]].level:
            runs[-1].append(head)
        else:
            runs.append([head])
    words = []
    for run in runs:
        names = [topology.nodes[i].name for i in run]
        words += [f"{names[0]}..{names[-1]}"] if len(names) > 3 else names
    return _some(words)
