"""GraphML and GML, as NetworkX reads them, with the names that the Internet Topology Zoo uses: ``label``, ``Latitude``,
``Longitude``, ``LinkSpeed``, ``LinkSpeedUnits`` and ``LinkSpeedRaw``."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from testbed.base.errors import TopologyError
from testbed.base.listing import counted
from testbed.base.printable import printable
from testbed.topologies.formats.sketch import Box, Cable, Options, Sketch, marked, marks, positive, seconds
from testbed.topologies.model import Topology

if TYPE_CHECKING:
    import networkx as nx

UNITS = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
"""Units of LinkSpeed, in bit/s; the Zoo writes the letter alone."""
_GRAPH = re.compile(r"\bgraph\s*\[")


def read(name: str, content: bytes, asked: Options) -> Sketch:
    """Read GraphML.

    Raises:
        TopologyError: it is none, or has a document type, in which entities could multiply it.
    """
    import networkx as nx

    text = _text(name, content)
    if re.search(r"<!(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise TopologyError(
            f"{name} has a document type, which is not read: entities in it can stand for any amount of text",
            fix="remove <!DOCTYPE ...> from the file",
        )
    return _sketch(name, _parsed(name, "GraphML", lambda: nx.parse_graphml(text, force_multigraph=True)), asked)


def read_gml(name: str, content: bytes, asked: Options) -> Sketch:
    """Read GML. Files of the Zoo have parallel edges without saying so (``multigraph 1``).

    Raises:
        TopologyError: it is none.
    """
    import networkx as nx

    text = _GRAPH.sub("graph [ multigraph 1 ", _text(name, content), count=1)
    return _sketch(name, _parsed(name, "GML", lambda: nx.parse_gml(text, label="id")), asked)


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TopologyError(f"{name} is not in UTF-8 (byte {error.start:,})", fix="save it as UTF-8") from None


def _parsed(name: str, form: str, parse: Callable[[], nx.Graph]) -> nx.Graph:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of keys without a type
            return parse()
    except Exception as error:  # NetworkX raises whatever a wrong file leads it to
        problem = printable(f"{type(error).__name__}: {error}"[:200]).replace("\n", " ")
        raise TopologyError(f"{name} is no {form} that NetworkX reads ({problem})", fix="correct it") from None


def _sketch(name: str, graph: nx.Graph, asked: Options) -> Sketch:
    number = {node: i for i, node in enumerate(graph)}
    boxes = [_box(str(node), data) for node, data in graph.nodes(data=True)]
    edges = [(number[a], number[b], data) for a, b, data in graph.edges(data=True)]
    if all(isinstance(data.get("number"), int) for *_, data in edges):
        edges.sort(key=lambda edge: edge[2]["number"])
    cables = [_cable(name, boxes, edge, asked) for edge in edges]
    return _undirected(name, boxes, cables) if graph.is_directed() else Sketch(boxes, cables)


def _undirected(name: str, boxes: list[Box], cables: list[Cable]) -> Sketch:
    """Join opposite edges of a directed graph. Raises TopologyError: the two directions differ."""
    waiting: dict[tuple[int, int], list[Cable]] = defaultdict(list)
    made: list[Cable] = []
    for cable in cables:
        if opposite := waiting[cable.b, cable.a]:
            other = opposite.pop(0)
            if (other.rate_bps, other.delay_s) != (cable.rate_bps, cable.delay_s):
                raise TopologyError(
                    f"{name}: the two directions between {boxes[cable.a].label} and {boxes[cable.b].label} differ in "
                    "rate or delay, and a link has one of each",
                    fix="make them the same, or take rates=spec and delays=spec",
                )
        else:
            waiting[cable.a, cable.b].append(cable)
            made.append(cable)
    joined = len(cables) - len(made)
    note = f"{counted(joined, 'pair')} of opposite edges: one link each"
    return Sketch(boxes, made, [note] if joined else [])


def _box(identity: str, data: Mapping[str, Any]) -> Box:
    label = str(data.get("label") or data.get("name") or identity)
    made = marked(label, data, "switch")
    degrees = (data.get("Latitude"), data.get("Longitude"))
    place = [float(angle) for angle in degrees if isinstance(angle, int | float) and abs(angle) <= 360]
    return made._replace(place=(place[0], place[1])) if len(place) == 2 else made


def _cable(name: str, boxes: list[Box], edge: tuple[int, int, Mapping[str, Any]], asked: Options) -> Cable:
    a, b, data = edge
    where = f"{name}: link {printable(boxes[a].label)[:40]} - {printable(boxes[b].label)[:40]}"
    rate_bps = _rate_bps(where, data) if asked.rates == "file" else None
    delay_s = seconds(where, "delay_s", data["delay_s"]) if asked.delays == "file" and "delay_s" in data else None
    ends = re.fullmatch(r"(\S+):(\d+) (\S+):(\d+)", str(data.get("ends")))
    if ends is None:
        return Cable(a, b, rate_bps, delay_s)
    made = Cable(a, b, rate_bps, delay_s, ends[2], ends[4])
    return made if boxes[a].label == ends[1] else Cable(b, a, rate_bps, delay_s, ends[2], ends[4])


def _rate_bps(where: str, data: Mapping[str, Any]) -> int | None:
    """Read what an edge says of its rate; None where it says nothing, or no unit."""
    for key in ("rate_bps", "LinkSpeedRaw"):
        if key in data:
            return positive(where, key, data[key])
    unit = data.get("LinkSpeedUnits")
    if "LinkSpeed" not in data or data["LinkSpeed"] == "" or unit not in UNITS:
        return None
    return positive(where, "LinkSpeed", data["LinkSpeed"], UNITS[unit])


def write(topology: Topology) -> str:
    """Write GraphML. ``ends`` has both nodes of a link with their ports, for a file says no order of the two."""
    import networkx as nx

    graph = nx.MultiGraph()
    for node in topology.nodes:
        graph.add_node(node.name, label=node.name, **marks(node))
    for number, link in enumerate(topology.links):
        a, b = topology.nodes[link.a].name, topology.nodes[link.b].name
        ends = f"{a}:{link.a_port} {b}:{link.b_port}"
        graph.add_edge(a, b, key=number, number=number, ends=ends, rate_bps=link.rate_bps, delay_s=float(link.delay_s))
    return "\n".join(nx.generate_graphml(graph, named_key_ids=True)) + "\n"
