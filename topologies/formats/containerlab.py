"""Labs of containerlab: ``NAME.clab.yml``. Nodes, kinds, groups and links are read; images and configurations are not.

A node is a host by its kind; all others are switches. Labels have what no other tool knows of our nodes, and ``vars``
what none knows of our links; containerlab passes those on to templates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict

from testbed.base.errors import TopologyError
from testbed.base.listing import counted, shortened
from testbed.base.printable import printable
from testbed.topologies.formats.sketch import Cable, Options, Sketch, marked, marks, positive, seconds, validated
from testbed.topologies.model import Node, Topology

HOSTS = frozenset({"linux", "ext-container", "k8s-kind"})
"""Kinds of nodes that are hosts."""
OUTSIDE = frozenset({"host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy"})
"""Names in place of a node, and types of a link with one end: such a link leads out of the lab."""
DEEPEST = 32
OF_HOSTS, OF_SWITCHES = "linux", "nokia_srlinux"
"""The kinds that are written."""
LABEL = "testbed-"
_ABSENT = BeforeValidator(lambda value: value or {})
"""A key without a value."""


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]  # the fast one, if PyYAML has it
    """Reads all values as text, and refuses keys that are there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        known = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := [key for key, count in known.items() if count > 1]:
            raise yaml.MarkedYAMLError(problem=f"{twice[0]!r} is there twice", problem_mark=node.start_mark)
        made: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return made


class _Node(BaseModel):
    """A node, or what a kind, a group or the defaults say of nodes."""

    model_config = ConfigDict(extra="allow")
    kind: str = ""
    group: str = ""
    labels: Annotated[dict[str, str], _ABSENT] = {}


_Nodes = Annotated[dict[str, Annotated[_Node, _ABSENT]], _ABSENT]


class _End(BaseModel):
    node: str
    interface: str


class _Link(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: str = ""
    endpoints: list[str | _End] = []
    vars: Annotated[dict[str, Any], _ABSENT] = {}


class _Topology(BaseModel):
    defaults: Annotated[_Node, _ABSENT] = _Node()
    kinds: _Nodes = {}
    groups: _Nodes = {}
    nodes: _Nodes
    links: Annotated[list[_Link], BeforeValidator(lambda value: value or [])] = []


class _Lab(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str = ""
    topology: _Topology


def read(name: str, content: bytes, asked: Options) -> Sketch:
    """Read a lab.

    Raises:
        TopologyError: it is none, or a link ends at a node or an interface that it cannot have.
    """
    lab = validated(_Lab, _parsed(name, content), name)
    here = lab.topology
    number = {node: i for i, node in enumerate(here.nodes)}
    boxes = []
    for called, node in here.nodes.items():
        kind = node.kind or here.groups.get(node.group, _Node()).kind or here.defaults.kind
        said = {key.removeprefix(LABEL): value for key, value in node.labels.items() if key.startswith(LABEL)}
        boxes.append(marked(called, said, "host" if kind in HOSTS else "switch"))
    cables: list[Cable] = []
    used: set[tuple[str, str]] = set()
    outside: Counter[str] = Counter()
    for i, link in enumerate(here.links):
        where = f"{name}: link {i}"
        ends = [end.split(":", 1) if isinstance(end, str) else [end.node, end.interface] for end in link.endpoints]
        lead_out = [*({link.type} & OUTSIDE), *(end[0] for end in ends if end[0] in OUTSIDE and end[0] not in number)]
        if lead_out:
            outside[lead_out[0]] += 1
            continue
        if len(ends) != 2 or any(len(end) != 2 for end in ends):
            raise TopologyError(f"{where} has no two ends", fix='write it as endpoints: ["leaf1:e1-1", "spine1:e1-1"]')
        for node_name, interface in ends:
            told = f"{node_name}:{interface}"[:60]
            if node_name not in number:
                raise TopologyError(
                    f"{where} ends at {printable(told)!r}, and there is no such node", fix="add the node"
                )
            if (node_name, interface) in used:
                raise TopologyError(f"{where} ends at {printable(told)!r}, as one before", fix="give each end its own")
            used.add((node_name, interface))
        (a, a_port), (b, b_port) = ends
        rate, delay = link.vars.get("rate_bps"), link.vars.get("delay_s")
        rate_bps = None if rate is None or asked.rates != "file" else positive(where, "rate_bps", rate)
        delay_s = None if delay is None or asked.delays != "file" else seconds(where, "delay_s", delay)
        cables.append(Cable(number[a], number[b], rate_bps, delay_s, a_port, b_port))
    return Sketch(boxes, cables, [*_left_out(lab), *_leading_out(outside)])


def _left_out(lab: _Lab) -> list[str]:
    here = lab.topology
    parts = (lab, here.defaults, *here.kinds.values(), *here.groups.values(), *here.nodes.values(), *here.links)
    keys = sorted({printable(key[:40]) for part in parts for key in part.model_extra or {}})
    return [f"left out: {shortened(keys, 12)}"] if keys else []


def _leading_out(outside: Counter[str]) -> list[str]:
    told = [f"{count} to {what}" for what, count in sorted(outside.items())]
    return [f"left out: {counted(sum(outside.values()), 'link')} out of the lab ({', '.join(told)})"] if told else []


def _parsed(name: str, content: bytes) -> Any:
    """Parse YAML of bounded depth, in which nothing stands for something else: aliases can multiply a text."""
    try:
        depth = 0
        for event in yaml.parse(content, Loader=_Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):
                raise TopologyError(f"{name} has the alias *{event.anchor}", fix="write out what it stands for")
            if depth > DEEPEST:
                raise TopologyError(f"{name} is nested too deeply", fix=f"nest at most {DEEPEST} groups")
        return yaml.load(content, Loader=_Loader)  # makes nothing but text, lists and mappings
    except (yaml.YAMLError, ValueError) as error:  # ValueError: no UTF-8
        problem = printable(str(error)[:200]).replace("\n", " ")
        raise TopologyError(f"{name} is no YAML ({problem})", fix="correct it") from None


def write(topology: Topology) -> str:
    """Write a lab, without images: give its kinds some. Interfaces are numbered from 1, as eth0 is containerlab's."""
    nodes = {
        node.name: {
            "kind": OF_HOSTS if node.kind == "host" else OF_SWITCHES,
            "labels": {f"{LABEL}{key}": str(value) for key, value in marks(node).items()},
        }
        for node in topology.nodes
    }
    links = [
        {
            "endpoints": [_end(topology.nodes[link.a], link.a_port), _end(topology.nodes[link.b], link.b_port)],
            "vars": {"rate_bps": link.rate_bps, "delay_s": float(link.delay_s)},
        }
        for link in topology.links
    ]
    lab = {"name": topology.family.rpartition("/")[2].partition(".")[0], "topology": {"nodes": nodes, "links": links}}
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(lab, Dumper=dumper, sort_keys=False, default_flow_style=None, width=200)
    return text


def _end(node: Node, port: int) -> str:
    return f"{node.name}:{'eth' if node.kind == 'host' else 'e1-'}{port + 1}"
