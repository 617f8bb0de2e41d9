"""InfraGraph: devices of components, instances of devices, and edges between components, as its package writes them in
JSON (``Infrastructure.serialize()``).

Each instance of a device is a node, and what is inside of it is left out; with ``hosts=xpus`` each component is a node.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import product
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field

from testbed.base.bounded_json import parse_json
from testbed.base.errors import TopologyError
from testbed.base.listing import shortened
from testbed.base.printable import printable
from testbed.topologies.formats.sketch import Box, Cable, Options, Sketch, marked, marks, positive, seconds, validated
from testbed.topologies.model import Topology
from testbed.topologies.parameters import MOST_LINKS, check_size, did_you_mean

BITS = {"gigabits_per_second": 1e9, "gigabytes_per_second": 8e9}
"""Units of a rate in bit/s. Gigatransfers are no rate without the width of a bus."""
SCALES = {"ms": -3, "us": -6, "ns": -9}
"""Units of a delay, as powers of ten of a second."""
ACCELERATOR = "xpu"
OF_HOSTS = frozenset({ACCELERATOR, "nic"})
"""Types of components by which a device is a host. Switches have ports and a processor."""
MOST_COMPARED = 1000
"""Names at most that a wrong one is compared with."""
DEEPEST = 8
"""Devices in devices at most."""
MARK = "testbed:"
_PIECE = re.compile(r"([^\[\].]+)(?:\[([^\[\]]*)\])?")
_NUMBER = re.compile(r"\.(\d+)(?=\.|$)")
_Path = tuple[str, str]
"""An instance with its number, and a component of it with its own: ``("host.0", "nic.1")``."""


class _Bandwidth(BaseModel):
    gigabits_per_second: float | None = None
    gigabytes_per_second: float | None = None


class _Latency(BaseModel):
    ms: float | None = None
    us: float | None = None
    ns: float | None = None


class _Physical(BaseModel):
    bandwidth: _Bandwidth | None = None
    latency: _Latency | None = None


class _Link(BaseModel):
    name: str
    physical: _Physical | None = None


class _Custom(BaseModel):
    type: str = ""


class _Component(BaseModel):
    name: str
    count: int = Field(ge=0, le=MOST_LINKS)
    choice: str = ""
    custom: _Custom = _Custom()

    @property
    def type(self) -> str:
        return self.custom.type if self.choice == "custom" else self.choice


class _DeviceEnd(BaseModel):
    device: str = ""
    component: str


class _DeviceEdge(BaseModel):
    ep1: _DeviceEnd
    ep2: _DeviceEnd
    scheme: Literal["one2one", "many2many"]
    link: str


class _Device(BaseModel):
    name: str
    components: list[_Component] = []
    links: list[_Link] = []
    edges: list[_DeviceEdge] = []


class _Instance(BaseModel):
    name: str
    device: str
    count: int = Field(ge=0, le=MOST_LINKS)
    description: str = ""


class _End(BaseModel):
    instance: str
    component: str


class _Edge(BaseModel):
    ep1: _End
    ep2: _End
    scheme: Literal["one2one", "many2many"]
    link: str


class _Infrastructure(BaseModel):
    devices: list[_Device]
    links: list[_Link] = []
    instances: list[_Instance]
    edges: list[_Edge] = []


def read(name: str, content: bytes, asked: Options) -> Sketch:
    """Read an infrastructure.

    Raises:
        TopologyError: it is none, or an edge names what is not there.
    """
    try:
        value = parse_json(content)
    except ValueError as error:
        raise TopologyError(f"{name} is no JSON ({printable(str(error)[:200])})", fix="correct it") from None
    if isinstance(value, dict) and isinstance(value.get("infrastructure"), dict):  # as the service answers
        value = value["infrastructure"]
    return _Reader(name, validated(_Infrastructure, value, name), asked).sketch()


_N = TypeVar("_N", _Device, _Instance, _Link, _Component)


class _Reader:
    def __init__(self, name: str, infrastructure: _Infrastructure, asked: Options) -> None:
        self._name, self._asked, self._all = name, asked, infrastructure
        self._devices = self._by_name("device", infrastructure.devices)
        self._instances = self._by_name("instance", infrastructure.instances)
        self._links = self._by_name("link", infrastructure.links)
        self._components_of = {
            device.name: self._by_name(f"component of {device.name}", device.components)
            for device in infrastructure.devices
        }
        self._whole = asked.hosts == ACCELERATOR + "s"
        self._expanded = 0
        """Devices and components that names, counts and slices have stood for so far."""

    def _by_name(self, what: str, given: Sequence[_N]) -> dict[str, _N]:
        known = {named.name: named for named in given}
        if len(known) < len(given):
            twice = next(name for name, count in Counter(named.name for named in given).items() if count > 1)
            raise TopologyError(
                f"{self._name}: the {what} {printable(twice[:60])!r} is there twice", fix="give each its own name"
            )
        return known

    def sketch(self) -> Sketch:
        boxes: dict[str, Box] = {}
        inside: set[str] = set()
        edges: list[tuple[_Path, _Path, _Link | None]] = []
        for instance in self._instances.values():
            device = self._device(instance.device, f"the instance {instance.name}")
            components = list(self._components(device, "", 0))
            inner = list(self._edges(device, "", 0)) if self._whole else []
            size = instance.count * (len(components) + len(inner) if self._whole else 1)
            self._check_size(len(boxes) + len(edges) + size)
            inside |= {type_ for _, type_ in components if type_}
            for i in range(instance.count):
                at, label = f"{instance.name}.{i}", _label(instance, i)
                if self._whole:
                    for path, type_ in components:
                        part = _NUMBER.sub(r"\1", path)
                        boxes[f"{at}.{path}"] = Box(f"{label}.{part}", _kind({type_}, {ACCELERATOR}))
                    edges += [((at, a), (at, b), link) for a, b, link in inner]
                else:
                    said = dict(word.split("=", 1) for word in instance.description.split() if "=" in word)
                    is_ours = instance.description.startswith(MARK)
                    kind = _kind({type_ for _, type_ in components}, OF_HOSTS)
                    boxes[at] = marked(said["name"], said, kind) if is_ours and "name" in said else Box(label, kind)
        for number, edge in enumerate(self._all.edges):
            where = f"edges.{number}"
            ends = [self._ends(end, where) for end in (edge.ep1, edge.ep2)]
            edges += [(a, b, self._links.get(edge.link)) for a, b in self._joined(ends[0], ends[1], edge.scheme)]
            self._check_size(len(edges))
        number_of = {identity: i for i, identity in enumerate(boxes)}
        seen: set[frozenset[_Path]] = set()
        cables = []
        for a, b, link in edges:
            if a != b and frozenset((a, b)) not in seen:  # as in InfraGraph's own graph
                seen.add(frozenset((a, b)))
                at_a, at_b = (number_of[".".join(end) if self._whole else end[0]] for end in (a, b))
                cables.append(Cable(at_a, at_b, *self._physical(link), a[1], b[1]))
        if not (self._whole or any(cable.a != cable.b for cable in cables)):
            raise TopologyError(
                f"{self._name} has no edge between two instances",
                fix="add hosts=xpus for the network inside of devices",
            )
        note = f"left out: the insides of devices ({shortened(sorted(map(printable, inside)), 8)}); hosts=xpus has them"
        return Sketch([*boxes.values()], cables, [] if self._whole or not inside else [note])

    def _refused(self, where: str, what: str, word: str, known: Sequence[str]) -> TopologyError:
        some = [printable(name[:60]) for name in known[:MOST_COMPARED]]
        near = did_you_mean(word[:60], some) or f" (there are {shortened(some, 6)})"
        return TopologyError(
            f"{self._name}: {where} names the {what} {printable(word[:60])!r}, which is not there{near}",
            fix="correct it",
        )

    def _device(self, name: str, where: str) -> _Device:
        if name not in self._devices:
            raise self._refused(where, "device", name, list(self._devices))
        return self._devices[name]

    def _components(self, device: _Device, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
        """Yield the path and the type of each component of a device, and of devices in it."""
        for component in device.components:
            for i in range(component.count):
                self._expand(1, depth)
                path = f"{prefix}{component.name}.{i}"
                if component.choice == "device":
                    inner = self._device(component.name, f"the device {device.name}")
                    yield from self._components(inner, f"{path}.", depth + 1)
                else:
                    yield path, component.type

    def _edges(self, device: _Device, prefix: str, depth: int) -> Iterator[tuple[str, str, _Link | None]]:
        """Yield the edges inside a device, and inside devices in it."""
        links = self._by_name(f"link of {device.name}", device.links)
        for edge in device.edges:
            paths = [
                self._paths(device, f"{end.device}.{end.component}" if end.device else end.component, device.name)
                for end in (edge.ep1, edge.ep2)
            ]
            for a, b in self._joined(paths[0], paths[1], edge.scheme):
                self._expand(1, depth)
                yield f"{prefix}{a}", f"{prefix}{b}", links.get(edge.link)
        for component in device.components:
            if component.choice == "device":
                for i in range(component.count):
                    self._expand(1, depth)
                    inner = self._device(component.name, f"the device {device.name}")
                    yield from self._edges(inner, f"{prefix}{component.name}.{i}.", depth + 1)

    def _expand(self, count: int, depth: int = 0) -> None:
        """Count what is made, before it is: some characters of a file can stand for any number."""
        self._expanded += count
        self._check_size(self._expanded // 8)  # an edge has two ends, of several components each
        if depth > DEEPEST:
            raise TopologyError(f"{self._name} has devices in devices, more than {DEEPEST}", fix="correct it")

    def _check_size(self, count: int) -> None:
        check_size(self._name, count, nodes_and_edges=count)

    def _ends(self, end: _End, where: str) -> list[_Path]:
        """List the components that one end of an edge stands for."""
        match = _PIECE.fullmatch(end.instance)
        if match is None or match[1] not in self._instances:
            raise self._refused(where, "instance", end.instance, list(self._instances))
        instance = self._instances[match[1]]
        paths = self._paths(self._devices[instance.device], end.component, where)
        numbers = self._range(match[2], instance.count, f"{where}: {end.instance}")
        self._expand(len(numbers) * len(paths))
        return [(f"{instance.name}.{i}", path) for i in numbers for path in paths]

    def _paths(self, device: _Device, text: str, where: str) -> list[str]:
        """List the components that ``cx5[0:2].port[0]`` stands for."""
        paths, is_device = [""], True
        for piece in text.split("."):
            match = _PIECE.fullmatch(piece)
            known = self._components_of[device.name] if is_device else {}
            if match is None or match[1] not in known:
                raise self._refused(where, "component", piece, list(known))
            component = known[match[1]]
            numbers = self._range(match[2], component.count, f"{where}: {text}")
            self._expand(len(paths) * len(numbers))
            paths = [f"{path}{'.' * bool(path)}{component.name}.{i}" for path in paths for i in numbers]
            if is_device := component.choice == "device":
                device = self._device(component.name, where)
        if is_device:
            raise self._refused(where, "component", f"{text}.", list(self._components_of[device.name]))
        return paths

    def _range(self, text: str | None, count: int, where: str) -> range:
        """Read ``0``, ``0:4`` or ``::2`` of so many; all where there is no text."""
        pieces = (text or ":").split(":")
        try:
            start, stop, step = (int(pieces[i]) if i < len(pieces) and pieces[i] else None for i in range(3))
            last = (start or 0) + 1 if len(pieces) == 1 else count if stop is None else stop
            chosen = range(start or 0, last, 1 if step is None else step)
        except ValueError:
            chosen = range(-1, 0)
        if len(pieces) > 3 or not all(0 <= number < count for number in (*chosen[:1], *chosen[-1:])):
            raise TopologyError(
                f"{self._name}: {printable(where[:90])}: {printable((text or '')[:40])!r} is not in 0 to {count - 1}",
                fix="write it as [0], [0:4] or [0:4:2]",
            )
        return chosen

    def _joined(self, first: Sequence[Any], second: Sequence[Any], scheme: str) -> Iterator[tuple[Any, Any]]:
        """Yield the pairs of an edge; of one to one, the longer side's rest is left out, as InfraGraph does."""
        if scheme == "one2one":
            return zip(first, second, strict=False)
        self._expand(len(first) * len(second))
        return product(first, second)

    def _physical(self, link: _Link | None) -> tuple[int | None, float | None]:
        """Return the rate (bit/s) and the delay (s) of a link; None for what it does not say."""
        if link is None or link.physical is None:
            return None, None
        where, physical = f"{self._name}: the link {printable(link.name[:60])}", link.physical
        rate_bps = delay_s = None
        for unit, value in physical.bandwidth or () if self._asked.rates == "file" else ():
            rate_bps = positive(where, unit, value, BITS[unit]) if value is not None else rate_bps
        for unit, value in physical.latency or () if self._asked.delays == "file" else ():
            if value is not None:
                delay_s = float(Decimal(repr(seconds(where, unit, value))).scaleb(SCALES[unit]))
        return rate_bps, delay_s


def _label(instance: _Instance, number: int) -> str:
    """``host3``, ``dgx_h100_3``, and ``core`` where there is one."""
    between = "_" if instance.name[-1:].isdigit() else ""
    return instance.name if instance.count == 1 else f"{instance.name}{between}{number}"


def _kind(types: set[str], of_hosts: frozenset[str] | set[str]) -> Literal["host", "switch"]:
    return "host" if types & of_hosts else "switch"


def write(topology: Topology) -> str:
    """Write an infrastructure: each node an instance of a device with as many NICs or ports."""
    names = {node.name: node.name.replace(".", "_") for node in topology.nodes}  # dots would end a name
    links: dict[tuple[int, float], str] = {}
    for link in topology.links:
        links.setdefault((link.rate_bps, link.delay_s), f"link{len(links)}")
    kinds = {(node.kind, len(ports)) for node, ports in zip(topology.nodes, topology.ports, strict=True)}
    instances = [
        {
            "name": names[node.name],
            "description": " ".join([MARK, f"name={node.name}", *(f"{k}={v}" for k, v in marks(node).items())]),
            "device": f"{node.kind}{len(ports)}",
            "count": 1,
        }
        for node, ports in zip(topology.nodes, topology.ports, strict=True)
    ]

    def end(node: int, port: int) -> dict[str, str]:
        called = topology.nodes[node]
        return {"instance": f"{names[called.name]}[0]", "component": f"{_port(called.kind)}[{port}]"}

    edges = [
        {
            "ep1": end(link.a, link.a_port),
            "ep2": end(link.b, link.b_port),
            "scheme": "one2one",
            "link": links[link.rate_bps, link.delay_s],
        }
        for link in topology.links
    ]
    value = {
        "name": "testbed",
        "devices": [_written_device(kind, count) for kind, count in sorted(kinds)],
        "links": [_written_link(called, *physical) for physical, called in links.items()],
        "instances": instances,
        "edges": edges,
    }
    return json.dumps(value, indent=1) + "\n"


def _port(kind: str) -> str:
    return "nic" if kind == "host" else "port"


def _written_device(kind: str, count: int) -> dict[str, Any]:
    port, (core, choice) = _port(kind), ("xpu", "xpu") if kind == "host" else ("asic", "cpu")
    return {
        "name": f"{kind}{count}",
        "components": [
            {"name": core, "count": 1, "choice": choice, choice: {}},
            {"name": port, "count": count, "choice": port, port: {}},
        ],
        "links": [{"name": "inside"}],
        "edges": [{"ep1": {"component": core}, "ep2": {"component": port}, "scheme": "many2many", "link": "inside"}],
    }


def _written_link(called: str, rate_bps: int, delay_s: float) -> dict[str, Any]:
    bandwidth = {"choice": "gigabits_per_second", "gigabits_per_second": rate_bps / 1e9}
    latency = {"choice": "us", "us": float(Decimal(repr(float(delay_s))).scaleb(6))}
    return {"name": called, "physical": {"bandwidth": bandwidth, "latency": latency}}
