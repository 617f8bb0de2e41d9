"""Switches that aggregate in the network (INA): ``ina=all``, ``ina=4``, ``ina=50%`` or ``ina=[leaf0,leaf1]``; and
routes that begin or end at one.

A number or a share takes the switches in the order in which Rina would replace them (section IV-D): the ToR with the
most workers first, then of the other switches that which the most workers pass on their way to the first worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from testbed.base.errors import TopologyError
from testbed.base.listing import shortened
from testbed.topologies.call import Value, as_text
from testbed.topologies.model import Path, Router, Topology
from testbed.topologies.parameters import did_you_mean
from testbed.topologies.shortest import ShortestPaths


@dataclass
class Transit:
    """A topology's router, extended to switches.

    ``between_hosts`` says how traffic goes from host to host, and goes on saying it. The kernel's routes know a
    packet's destination only, so what a switch sends to a host takes the rest of a host's path that passes the switch;
    where none does, a step on a shortest path towards one. What is sent to a switch takes a shortest path.
    """

    between_hosts: Router
    _shortest: ShortestPaths = field(default_factory=ShortestPaths)

    def __call__(self, topology: Topology, src: int, dst: int) -> tuple[Path, ...]:
        if dst >= topology.host_count:
            return self._shortest(topology, src, dst)
        if src < topology.host_count:
            return self.between_hosts(topology, src, dst)
        return self._rest(topology, src, dst) or self._joining(topology, src, dst)

    def _rest(self, topology: Topology, switch: int, dst: int) -> tuple[Path, ...]:
        """Return the rest of the paths of the first host whose traffic for ``dst`` passes a switch; else none."""
        near = [topology.head(link) for link in topology.ports[switch]]
        for host in [*(node for node in near if node < topology.host_count), *topology.hosts]:
            if host == dst:
                continue
            paths = self.between_hosts(topology, host, dst)
            passing: dict[tuple[int, ...], float] = {}
            for path in paths:
                at = next((i for i, link in enumerate(path.links) if topology.tail(link) == switch), None)
                if at is not None:
                    passing[path.links[at:]] = passing.get(path.links[at:], 0.0) + path.weight
            if passing:
                return tuple(Path(links, weight / sum(passing.values())) for links, weight in passing.items())
        return ()

    def _joining(self, topology: Topology, switch: int, dst: int) -> tuple[Path, ...]:
        first = self._shortest(topology, switch, dst)[0].links[0]
        head = topology.head(first)
        rest = (Path(()),) if head == dst else self(topology, head, dst)
        return tuple(Path((first, *path.links), path.weight) for path in rest)


_FORMS = "all, a number of switches such as 2, a share of them such as 50%, or a list such as [s0]"


def mark(topology: Topology, which: Value) -> Topology:
    """Return the same network, in which the switches that ``which`` names aggregate.

    Raises:
        TopologyError: it names no switch of the topology, or more than there are.
    """
    chosen = set(_chosen(topology, which))
    nodes = tuple(replace(node, ina=True) if i in chosen else node for i, node in enumerate(topology.nodes))
    params = {**topology.params, "ina": which}
    return replace(topology, nodes=nodes, params=params, router=Transit(topology.router))


def replacement_order(topology: Topology, root: int = 0) -> list[int]:
    """List every switch, the one to replace first in front (Rina section IV-D), where traffic goes to host ``root``."""
    workers = {
        switch: len({topology.head(link) for link in topology.ports[switch]} & set(topology.hosts))
        for switch in topology.switches
    }
    below: dict[int, int] = {}
    for host in topology.hosts:
        for passed in topology.paths(host, root)[0].links[1:]:
            below[topology.tail(passed)] = below.get(topology.tail(passed), 0) + 1
    switches = [switch for switch in topology.switches if topology.nodes[switch].kind == "switch"]
    return sorted(switches, key=lambda switch: (-workers[switch], -below.get(switch, 0), switch))


def _chosen(topology: Topology, which: Value) -> Iterable[int]:
    order = replacement_order(topology)
    if not order:
        raise TopologyError(f"{topology.expression} has no switch that could add", fix="remove ina")
    if which == "all":
        return order
    if type(which) is int and 0 <= which <= len(order):
        return order[:which]
    share = _share(which)
    if share is not None:
        return order[: int(share * len(order))]
    if isinstance(which, tuple) and which:
        return [_switch(topology, as_text(name)) for name in which]
    raise TopologyError(
        f"{topology.expression}: ina is {as_text(which)}, and there are {len(order)} switches", fix=f"give ina {_FORMS}"
    )


def _share(which: Value) -> float | None:
    """Return ``50%`` as 0.5; None where it is no share from 0 to 1."""
    if not isinstance(which, str) or not which.endswith("%"):
        return None
    try:
        share = float(which[:-1]) / 100
    except ValueError:
        return None
    return share if 0 <= share <= 1 else None


def _switch(topology: Topology, name: str) -> int:
    switches = {topology.nodes[switch].name: switch for switch in topology.switches}
    if name not in switches:
        raise TopologyError(
            f"{topology.expression}: ina names {name!r}, which is no switch{did_you_mean(name, switches)}",
            fix=f"name switches: {shortened([*switches], 6)}",
        )
    return switches[name]
