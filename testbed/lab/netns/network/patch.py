"""Moves of circuits while the network is up, worked out beforehand so that each of four steps is one batch a node.

1. The circuits that go are parted: their ports are dark. What stays is not touched.
2. While it is dark, servers learn their new neighbours, and new routes where the old ones led into the dark.
3. The new circuits are joined.
4. Servers change the routes that have worked until now.

Where nodes are on several machines, each machine does its share of a step, and none begins the next one before all have
done that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from testbed.base.errors import LabError
from testbed.lab.netns.kernel_interface import rtnetlink, switching
from testbed.lab.netns.kernel_interface.netlink import Request
from testbed.lab.netns.network.blueprint import FIRST_INDEX, Blueprint, NodePlan
from testbed.topologies.model import Topology

PART, REROUTE, JOIN, CHANGE = range(4)
"""The steps, by their places in :attr:`Patch.steps`."""
Requests = Mapping[int, list[Request]]
"""Requests by node."""


@dataclass(frozen=True)
class Patch:
    """A move from one network to another that differs in its circuits and routes: the requests of each step."""

    before: Blueprint
    after: Blueprint
    steps: tuple[Requests, ...]

    @property
    def touched(self) -> list[NodePlan]:
        """Nodes that the move changes."""
        return [self.after.nodes[index] for index in sorted({*chain.from_iterable(self.steps)})]


def carry_out(step: Callable[[int], Sequence[float]], dark_s: float, leaving: threading.Event) -> tuple[float, float]:
    """Carry out the move that was planned. Return when the first circuit was dark, and when the last new one was in
    use (``time.monotonic``).

    Args:
        step: takes a step everywhere, and returns when each machine had done so.
        dark_s: seconds for which each circuit is dark at least.
        leaving: set when the network goes down meanwhile.

    Raises:
        LabError: the network goes down; or what ``step`` raises.
    """
    parted_s = step(PART)
    step(REROUTE)
    if leaving.wait(max(0.0, max(parted_s) + dark_s - time.monotonic())):
        raise LabError("the network was taken down while circuits were dark", fix="bring it up again")
    step(JOIN)
    return min(parted_s), max(step(CHANGE))


def check_alike(up: Topology, topology: Topology) -> None:
    """Raises LabError: what is up does not become this network by moves of circuits."""
    if replace(topology, panels=up.panels) != up:
        raise LabError(f"{topology.expression} is not what is up", fix="change the circuits of what is up, no more")


def plan(before: Blueprint, after: Blueprint) -> Patch:
    """Plan the move from one network to another, as far as nodes are on this machine."""
    way = _Way(before, after)
    steps: tuple[dict[int, list[Request]], ...] = ({}, {}, {}, {})
    for node in after.own_nodes:
        was, index = before.nodes[node.index], node.index
        lit, light = before.joined(was), after.joined(node)
        knew, knows = set(before.neighbours(was)), set(after.neighbours(node))
        wanted = {route.destination for route in (*was.routes, *node.routes)}
        lost = {destination for destination in wanted if way.is_lost(index, destination)}
        steps[PART][index] = [
            switching.part(port, _name(before, port)) for port, to in lit.items() if light.get(port) != to
        ]
        steps[REROUTE][index] = [
            # Somebody may have sent there already, and the kernel asked in vain who it is.
            *(
                rtnetlink.set_neighbour(one.index, one.address, one.mac, _name(after, one.index), anew=True)
                for one in knows - knew
            ),
            *_route(after, was, node, lost),
        ]
        steps[JOIN][index] = [
            switching.join(port, to, _name(after, port)) for port, to in light.items() if lit.get(port) != to
        ]
        steps[CHANGE][index] = [
            *_route(after, was, node, wanted - lost),
            *(rtnetlink.remove_neighbour(one.index, one.address, _name(before, one.index)) for one in knew - knows),
        ]
    return Patch(before, after, tuple({index: step[index] for index in step if step[index]} for step in steps))


def _route(after: Blueprint, was: NodePlan, node: NodePlan, destinations: Collection[str]) -> Iterator[Request]:
    """Yield requests that change a node's routes to some destinations."""
    had, has = ({one.destination: one.hops for one in routes} for routes in (was.routes, node.routes))
    for destination in sorted(destinations):
        if destination not in has:
            yield rtnetlink.remove_route(destination, node.name)
        elif had.get(destination) != has[destination]:
            yield rtnetlink.set_route(destination, has[destination], node.name, after.first_segments)


def _name(blueprint: Blueprint, index: int) -> str:
    node, position = blueprint.ends[index - FIRST_INDEX]
    return f"{blueprint.nodes[node].name}:{blueprint.nodes[node].ports[position].name}"


class _Way:
    """Paths on which servers forward before a move, and what of them leads over a circuit that goes."""

    def __init__(self, before: Blueprint, after: Blueprint) -> None:
        self.parted = {link for link, out in before.circuits.items() if after.circuits.get(link) != out}
        self.owner = {port.address: node.index for node in before.nodes for port in node.ports if port.address}
        self.routes = [{one.destination: one.hops[0] for one in node.routes} for node in before.nodes]
        self.met = [{one.address: one.index for one in before.neighbours(node)} for node in before.nodes]

    def is_lost(self, node: int, destination: str) -> bool:
        """Whether what a node sends to an address is lost while it is dark, or has never arrived."""
        while node != self.owner[destination]:
            if destination in self.routes[node]:
                index, via = self.routes[node][destination]
            elif destination in self.met[node]:
                index, via = self.met[node][destination], None
            else:
                return True
            if index - FIRST_INDEX in self.parted:
                return True
            node = self.owner[via or destination]
        return False
