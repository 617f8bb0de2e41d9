"""A network as a file has it, and the topology that is made of it: names, ports, hosts, levels, rates and delays."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from testbed.base.errors import TopologyError
from testbed.base.listing import counted, shortened
from testbed.base.printable import printable
from testbed.topologies.call import as_text
from testbed.topologies.ina import Transit
from testbed.topologies.model import Link, Node, Router, Topology
from testbed.topologies.parameters import check_size, did_you_mean
from testbed.topologies.shortest import ShortestPaths, steps_from

if TYPE_CHECKING:
    from pydantic import BaseModel

    M = TypeVar("M", bound=BaseModel)

LONGEST_NAME = 15
"""Characters of a name: what Linux allows an interface."""
FIBRE_M_PER_S = 2e8
"""Speed of light in a fibre, two thirds of that in vacuum."""
EARTH_M = 6_371_000
LARGEST_BPS = 10**18
LARGEST_DELAY_S = 1e6
NAMED = 3
"""How many nodes a note names."""
_VALID = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


class Box(NamedTuple):
    """A node of a file. ``level`` is None where none is given; ``place`` is its latitude and longitude (degrees)."""

    label: str
    kind: Literal["host", "switch"]
    level: int | None = None
    rack: int | None = None
    ina: bool = False
    place: tuple[float, float] | None = None


class Cable(NamedTuple):
    """A link of a file between two nodes, by number. A port is called as the file calls it; None where it has none."""

    a: int
    b: int
    rate_bps: int | None = None
    delay_s: float | None = None
    a_port: str | None = None
    b_port: str | None = None


@dataclass
class Sketch:
    """Nodes and links in the order of a file, and notes on what was left out of it."""

    boxes: list[Box]
    cables: list[Cable]
    notes: list[str] = field(default_factory=list)


class Options(NamedTuple):
    """Arguments of a file in an expression."""

    hosts: str | tuple[str, ...]
    rates: str
    delays: str
    routing: str


def options(
    *,
    hosts: Literal["file", "leaves", "all", "xpus"] | tuple[str, ...] = "file",
    rates: Literal["file", "spec"] = "file",
    delays: Literal["file", "spec", "distance"] = "file",
    routing: Literal["shortest", "ecmp"] = "shortest",
) -> Options:
    """Options of a file.

    Args:
        hosts: nodes that the file says are hosts, and if it says it of none, as ``leaves``: one host hung on each node
            with one link; ``all``: one on every node; a list: these nodes are the hosts; ``xpus``: accelerators inside
            InfraGraph's devices.
        rates: those of the file, where it has them, or of the spec.
        delays: the same, or those of light in a fibre over the distance of two nodes' coordinates.
        routing: one shortest path, or all.
    """
    return Options(tuple(map(as_text, hosts)) if isinstance(hosts, tuple) else hosts, rates, delays, routing)


def assembled(name: str, sketch: Sketch, asked: Options, rate_bps: int, delay_s: float) -> Topology:
    """Make the topology of a sketch.

    Args:
        name: of the file.
        rate_bps: of links for which the file has none, and of hosts that are hung on nodes.
        delay_s: the same for delays.

    Raises:
        TopologyError: there is no link or no host, or the options do not fit the file.
    """
    size = len(sketch.boxes) + len(sketch.cables)
    check_size(name, size, nodes_and_links=size)
    cables = [cable for cable in sketch.cables if cable.a != cable.b]
    linked = {end for cable in cables for end in (cable.a, cable.b)}
    alone = [_told(box.label) for i, box in enumerate(sketch.boxes) if i not in linked]
    notes = list(sketch.notes)
    if len(cables) < len(sketch.cables):
        notes.append(f"left out: {counted(len(sketch.cables) - len(cables), 'link')} from a node to itself")
    if not cables:
        raise TopologyError(f"{name} has no link between two nodes", fix="name a file with links")
    if alone:
        notes.append(f"left out: {counted(len(alone), 'node')} without a link ({shortened(alone, NAMED)})")
    kept = sorted(linked)
    number = {old: new for new, old in enumerate(kept)}
    boxes = [sketch.boxes[old] for old in kept]
    cables = [cable._replace(a=number[cable.a], b=number[cable.b]) for cable in cables]
    labels = [box.label for box in boxes]
    names = _names(labels)
    notes += _renamed(labels, names)
    cables = _delayed(name, boxes, cables, asked, notes)
    if asked.rates == "file" and (lacking := sum(cable.rate_bps is None for cable in cables)):
        notes.append(f"{lacking:,} of {counted(len(cables), 'link')} have no rate: the spec's is taken")

    hosts, hung = _hosts(name, boxes, cables, names, asked)
    if hung:
        notes.append(f"added: {counted(len(hung), 'host')}, on {shortened([names[at] for at in hung], NAMED)}")
        added = _names([f"h{i}" for i in range(len(hung))], names)
        cables = [Cable(len(boxes) + i, at, rate_bps, delay_s) for i, at in enumerate(hung)] + cables
        boxes, names = boxes + [Box(host, "host") for host in added], names + added
        hosts = list(range(len(names) - len(added), len(names)))
    order = [*hosts, *sorted(set(range(len(boxes))) - set(hosts))]
    near = _near(order, cables)
    nodes = _nodes([boxes[i] for i in order], [names[i] for i in order], len(hosts), near)
    if (parts := _parts(near)) > 1:
        notes.append(f"{parts} parts that no link joins")
    router: Router = ShortestPaths(ecmp=asked.routing == "ecmp")
    if any(node.ina for node in nodes):
        router = Transit(router)
    links = _links(order, cables, rate_bps, delay_s)
    return Topology(name, {}, nodes, links, router, notes=tuple(notes))


def _near(order: Sequence[int], cables: Iterable[Cable]) -> list[list[int]]:
    """List the neighbours of each node, in the order of the topology."""
    number = {old: new for new, old in enumerate(order)}
    near: list[list[int]] = [[] for _ in order]
    for cable in cables:
        near[number[cable.a]].append(number[cable.b])
        near[number[cable.b]].append(number[cable.a])
    return near


def _parts(near: Sequence[Sequence[int]]) -> int:
    """Count the parts that no link joins."""
    reached, parts = set[int](), 0
    for node in range(len(near)):
        if node not in reached:
            reached.update(steps_from([node], near.__getitem__))
            parts += 1
    return parts


def _nodes(boxes: Sequence[Box], names: Sequence[str], hosts: int, near: list[list[int]]) -> tuple[Node, ...]:
    """Make nodes, hosts first. A switch without a level has the number of links to the nearest host."""
    steps = steps_from(range(hosts), near.__getitem__)
    made = [Node(name, "host", 0, box.rack) for box, name in zip(boxes[:hosts], names[:hosts], strict=True)]
    for i in range(hosts, len(boxes)):
        level = boxes[i].level if boxes[i].kind == "switch" else None
        made.append(Node(names[i], "switch", level or steps.get(i, 1), boxes[i].rack, boxes[i].ina))
    return tuple(made)


def _links(order: Sequence[int], cables: Sequence[Cable], rate_bps: int, delay_s: float) -> tuple[Link, ...]:
    """Make links. Ports of a node are numbered by their names, if the file names all of them, else as links come."""
    number = {old: new for new, old in enumerate(order)}
    ends: dict[int, list[tuple[int, int, str | None]]] = {}  # by node: link, which end, and how the port is called
    for i, cable in enumerate(cables):
        ends.setdefault(cable.a, []).append((i, 0, cable.a_port))
        ends.setdefault(cable.b, []).append((i, 1, cable.b_port))
    port: dict[tuple[int, int], int] = {}
    for here in ends.values():
        if all(called is not None for *_, called in here):
            here.sort(key=lambda end: _natural(end[2] or ""))
        port |= {(i, side): at for at, (i, side, _) in enumerate(here)}
    return tuple(
        Link(
            *(number[cable.a], port[i, 0], number[cable.b], port[i, 1]),
            rate_bps if cable.rate_bps is None else cable.rate_bps,
            delay_s if cable.delay_s is None else cable.delay_s,
        )
        for i, cable in enumerate(cables)
    )


def _natural(text: str) -> list[tuple[int, str]]:
    """Sort ``eth10`` after ``eth9``."""
    return [(int(digits[:18] or 0), word) for word, digits in re.findall(r"([^0-9]*)([0-9]*)", text)]


def _delayed(name: str, boxes: Sequence[Box], cables: list[Cable], asked: Options, notes: list[str]) -> list[Cable]:
    """Return the links with the delays that were asked for."""
    if asked.delays != "distance":  # readers leave out those that the spec overrules
        return cables
    if not any(box.place for box in boxes):
        raise TopologyError(f"{name}: no node has a latitude and a longitude", fix="remove delays=distance")
    made = []
    for cable in cables:
        a, b = boxes[cable.a].place, boxes[cable.b].place
        made.append(cable._replace(delay_s=round(_metres(a, b) / FIBRE_M_PER_S, 9) if a and b else None))
    if lacking := sum(cable.delay_s is None for cable in made):
        notes.append(
            f"{lacking:,} of {counted(len(cables), 'link')} lack coordinates at an end: the spec's delay is taken"
        )
    return made


def _metres(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Length of the great circle between two places."""
    (lat_a, lon_a), (lat_b, lon_b) = (map(math.radians, place) for place in (a, b))
    half = math.sin((lat_b - lat_a) / 2) ** 2
    half += math.cos(lat_a) * math.cos(lat_b) * math.sin((lon_b - lon_a) / 2) ** 2
    return 2 * EARTH_M * math.asin(math.sqrt(min(1.0, half)))


def _hosts(
    name: str, boxes: Sequence[Box], cables: Sequence[Cable], names: Sequence[str], asked: Options
) -> tuple[list[int], list[int]]:
    """Return the nodes that are hosts, and those on which one is hung; one of the two is empty."""
    if isinstance(asked.hosts, tuple):
        known = {box.label: i for i, box in reversed([*enumerate(boxes)])} | {text: i for i, text in enumerate(names)}
        for wanted in asked.hosts:
            if wanted not in known:
                raise TopologyError(
                    f"{name}: hosts names {wanted!r}, which is no node with a link{did_you_mean(wanted[:60], names)}",
                    fix=f"name nodes: {shortened(names, 6)}",
                )
        if not asked.hosts:
            raise TopologyError(f"{name}: hosts names no node", fix=f"name nodes: {shortened(names, 6)}")
        return list(dict.fromkeys(known[wanted] for wanted in asked.hosts)), []
    said = [i for i, box in enumerate(boxes) if box.kind == "host"]
    if asked.hosts == "xpus" or (asked.hosts == "file" and said):
        if not said:
            raise TopologyError(f"{name} has no accelerator with a link", fix="remove hosts=xpus")
        return said, []
    if asked.hosts == "all":
        return [], list(range(len(boxes)))
    degree = Counter(end for cable in cables for end in (cable.a, cable.b))
    leaves = [i for i in range(len(boxes)) if degree[i] == 1]
    if not leaves:
        raise TopologyError(
            f"{name} says of no node that it is a host, and none has only one link",
            fix=f"add hosts=all, or name nodes that are hosts: hosts=[{','.join(names[:2])}]",
        )
    return [], leaves


def _told(label: str) -> str:
    return repr(printable(label[:40]))


def _names(labels: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Give each label a name of its own: letters, digits, dots, dashes and underscores, at most 15, a letter first."""
    used, names, again = set(taken), list[str](), dict[str, int]()
    for label in labels:
        plain = unicodedata.normalize("NFKD", label[:200]).encode("ascii", "ignore").decode()
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", plain).strip("_") or "n"
        name = (name if _VALID.fullmatch(name) else f"n{name}")[:LONGEST_NAME]
        base = name
        while name in used:
            again[base] = again.get(base, 1) + 1
            name = f"{base[: LONGEST_NAME - 1 - len(str(again[base]))]}_{again[base]}"
        used.add(name)
        names.append(name)
    return names


def _renamed(labels: Sequence[str], names: Sequence[str]) -> list[str]:
    """Say which labels are there twice, and which nodes are called otherwise than in the file."""
    notes = []
    if twice := [label for label, count in Counter(labels).items() if count > 1]:
        notes.append(f"{counted(len(twice), 'label')} of several nodes: {shortened([*map(_told, twice)], NAMED)}")
    if changed := [f"{_told(label)} is {name}" for label, name in zip(labels, names, strict=True) if label != name]:
        notes.append(f"{counted(len(changed), 'node')} with another name: {shortened(changed, NAMED)}")
    return notes


def positive(where: str, what: str, value: object, factor: float = 1.0) -> int:
    """Read a rate as whole bit/s: a number times what its unit stands for.

    Raises:
        TopologyError: it is none, or none that a link can have.
    """
    number = _number(value) * factor
    if not 1 <= number <= LARGEST_BPS:
        raise TopologyError(f"{where} has {what} {value!r:.60}", fix="give a rate of 1 bit/s or more, or rates=spec")
    return round(number)


def seconds(where: str, what: str, value: object) -> float:
    """Read a delay in seconds.

    Raises:
        TopologyError: it is none, or none that a link can have.
    """
    number = _number(value)
    if not 0 <= number <= LARGEST_DELAY_S:
        raise TopologyError(f"{where} has {what} {value!r:.60}", fix="give a delay of 0 or more, or delays=spec")
    return number


def _number(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def marks(node: Node) -> dict[str, Any]:
    """Return what no other tool knows of a node, in the words of our files."""
    known: dict[str, Any] = {"kind": node.kind, "level": node.level}
    return known | ({} if node.rack is None else {"rack": node.rack}) | ({"ina": True} if node.ina else {})


def marked(label: str, said: Mapping[str, object], kind: Literal["host", "switch"]) -> Box:
    """Make a node of what :func:`marks` said of it; ``kind`` is what it is if that says nothing."""
    level, rack = (_whole(said.get(key)) for key in ("level", "rack"))
    told: Literal["host", "switch"] = "host" if said.get("kind") == "host" else "switch"
    ina = str(said.get("ina")).lower() == "true" and told == "switch"
    return Box(label, told if "kind" in said else kind, level or None, rack, ina)


def _whole(value: object) -> int | None:
    """Return a small whole number; None for anything else."""
    number = _number(value)
    return int(number) if 0 <= number < 2**31 and number == int(number) else None


def validated(model: type[M], value: object, name: str) -> M:
    """Read a value as a model has it.

    Raises:
        TopologyError: it is something else; the error names the first key.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = printable(".".join(map(str, first["loc"]))[:200])
        problem = (
            f"{name}: {where}: {first['msg'][:1].lower()}{first['msg'][1:]}" if where else f"{name}: {first['msg']}"
        )
        raise TopologyError(problem, fix="correct it, or have its tool write the file again") from None
