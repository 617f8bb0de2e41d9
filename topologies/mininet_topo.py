"""A Mininet ``Topo`` class as a topology, for every lab: ``./mytopo.py:MyTopo(k=2)``, or one of
Mininet's own, by the path of Mininet's ``topo.py`` or ``topolib.py``.

Its hosts come first, in Mininet's natural order, and keep their names; ports are numbered in the order of the links.
``bw`` (Mbit/s) and ``delay`` of a link are taken as they are; links without have the spec's. What no lab would carry
out is refused, and not left out.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from testbed.base.errors import TopologyError
from testbed.topologies.model import Link, Node, Topology
from testbed.topologies.parameters import Parameter, parameters_of
from testbed.topologies.shortest import ShortestPaths

PLACES = {"node1", "node2", "port1", "port2"}
"""Keys that Mininet itself stores with each link."""
ADDRESSES = {"ip", "mac", "defaultRoute", "dpid", "addr1", "addr2", "intfName1", "intfName2"}
"""Options with names and addresses: labs give their own, which results do not depend on."""
MARKS = {"isSwitch"}
SECONDS = {"": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0}
"""Units of times as ``tc`` reads them: a number alone is microseconds."""
DELAY = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|)")


def is_topo(value: object) -> bool:
    """Whether a value is a Mininet ``Topo`` class; Mininet itself is not needed to tell."""
    return isinstance(value, type) and any(map(_is_base, value.__mro__))


def _is_base(type_: type) -> bool:
    """Whether a class is Mininet's ``Topo`` itself: imported, or run as a user's file."""
    return type_.__name__ == "Topo" and type_.__module__.endswith(("mininet.topo", "mininet/topo.py"))


def parameters_of_topo(name: str, topo: Callable[..., object]) -> tuple[Parameter, ...]:
    """Return the parameters of the class: those of its ``__init__`` and, if that passes on what it does not know
    (``**options``), those of the next one, up to Mininet's own, which passes all of them to ``build``.

    Args:
        name: whose it is, for errors.
        topo: the class.

    Raises:
        TopologyError: a signature cannot be used.
    """
    found: dict[str, Parameter] = {}
    try:
        for number, method in enumerate(_takers(topo)):
            for one in parameters_of(method, 1):
                found.setdefault(one.name, one if number == 0 else replace(one, required=False))  # may be given there
    except (TypeError, ValueError, NameError) as problem:
        raise TopologyError(
            f"the signature of {name} cannot be used: {problem}",
            fix="write it as: def build(self, racks=2)",
        ) from problem
    return tuple(found.values())


def _takers(topo: Callable[..., object]) -> Iterator[Callable[..., object]]:
    """Yield the methods that a class's arguments reach, the first to get them first."""
    assert isinstance(topo, type)
    for one in topo.__mro__:
        if _is_base(one):
            yield inspect.getattr_static(topo, "build")
            return
        if "__init__" in vars(one):
            method = vars(one)["__init__"]
            yield method
            if not any(each.kind is each.VAR_KEYWORD for each in inspect.signature(method).parameters.values()):
                return


def read(name: str, topo: Any, rate_bps: int, delay_s: float) -> Topology:
    """Read the network that a ``Topo`` object describes.

    Args:
        name: whose it is, for errors.
        topo: a ``mininet.topo.Topo``.
        rate_bps: of links without ``bw``.
        delay_s: of links without ``delay``.

    Raises:
        TopologyError: it asks for what labs do not carry out.
    """
    hosts, switches = list(topo.hosts()), list(topo.switches())
    for node in (*hosts, *switches):
        _refuse_others(f"{name}: {node}", topo.nodeInfo(node), ADDRESSES | MARKS)
    index = {node: number for number, node in enumerate([*hosts, *switches])}
    used = [0] * len(index)
    links = []
    for first, second, info in topo.links(withInfo=True):
        where = f"{name}: link {first} - {second}"
        _refuse_others(where, info, PLACES | ADDRESSES | {"bw", "delay"})
        a, b = index[first], index[second]
        rate, delay = _rate_bps(where, info, rate_bps), _delay_s(where, info, delay_s)
        links.append(Link(a, used[a], b, used[b], rate, delay))
        used[a] += 1
        used[b] += 1
    nodes = [Node(node, "host", 0) for node in hosts] + [Node(node, "switch", 1) for node in switches]
    return Topology(name, {}, tuple(nodes), tuple(links), ShortestPaths())


def _refuse_others(where: str, options: Mapping[str, object], known: set[str]) -> None:
    for option, value in options.items():
        if option not in known and value is not None:
            raise TopologyError(
                f"{where} has {option}={value!r}, which no lab carries out",
                fix="leave it out; the spec's links and perturb give loss, jitter and queues to any link",
            )


def _rate_bps(where: str, options: Mapping[str, Any], rate_bps: int) -> int:
    bw = options.get("bw")
    if bw is None:
        return rate_bps
    if isinstance(bw, bool) or not isinstance(bw, int | float) or not bw > 0:
        raise TopologyError(f"{where} has bw={bw!r}", fix="give bw as a number of Mbit/s above 0")
    return round(bw * 1e6)


def _delay_s(where: str, options: Mapping[str, Any], delay_s: float) -> float:
    delay = options.get("delay")
    if delay is None:
        return delay_s
    found = DELAY.fullmatch(str(delay).strip())
    if found is None:
        raise TopologyError(f"{where} has delay={delay!r}", fix="write it as '5ms', '200us' or '1s'")
    return float(found[1]) * SECONDS[found[2]]
