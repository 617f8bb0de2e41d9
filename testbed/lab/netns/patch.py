"""Moving circuits while the network is up: what goes dark, and all that changes when the new circuits are lit.

What stays is not touched. At light, panels come first, then servers: each learns its new neighbours before the routes
through them, and forgets routes before it learns others, since a gateway must not be behind a gateway.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from testbed.errors import LabError
from testbed.lab.netns import panel, readback, rtnetlink
from testbed.lab.netns.blueprint import FIRST_INDEX, Blueprint, NodePlan
from testbed.lab.netns.build import Network
from testbed.lab.netns.netlink import Request

Requests = dict[int, list[Request]]
"""By node."""


class Patch:
    """One move: circuits go dark as it is made; ``light`` brings up what ``load`` has prepared.

    Raises:
        LabError: the kernel refused something.
    """

    def __init__(self, network: Network, circuits: Mapping[int, int]) -> None:
        self._network = network
        self._before = network.blueprint
        self._light: Requests = {}
        self._after: Blueprint | None = None
        network.send(darkening(self._before, circuits))
        stay = {link: out for link, out in self._before.circuits.items() if circuits.get(link) == out}
        network.blueprint = replace(self._before, circuits=stay)
        self.dark_s = time.monotonic()

    def load(self, after: Blueprint) -> None:
        """Prepare what makes the network ``after``."""
        self._after, self._light = after, lighting(self._before, after)

    def light(self) -> float:
        """Bring the new circuits up, with routes; when they were (``time.monotonic``).

        Raises:
            LabError: the kernel refused something, or says something else afterwards.
        """
        if self._after is None:
            raise LabError("a patch has no circuits to light", fix="load it first")
        self._network.send(self._light)
        lit_s = time.monotonic()
        self._network.blueprint = self._after
        readback.verify_nodes(self._network, self._light)
        return lit_s


def darkening(before: Blueprint, circuits: Mapping[int, int]) -> Requests:
    """What parts the circuits that are not to stay."""
    requests: Requests = {}
    for link, out in before.circuits.items():
        if circuits.get(link) != out:
            node, _ = before.ends[link ^ 1]
            port = before.port(link ^ 1)
            requests.setdefault(node, []).append(panel.part(port.index, f"{before.nodes[node].name}:{port.name}"))
    return requests


def lighting(before: Blueprint, after: Blueprint) -> Requests:
    """What makes one network of the other once the circuits that move are dark; panels first."""
    order = sorted(after.nodes, key=lambda node: node.mode != "panel")
    changes = ((node.index, list(_change(before, after, node))) for node in order)
    return {node: requests for node, requests in changes if requests}


def _change(before: Blueprint, after: Blueprint, node: NodePlan) -> Iterator[Request]:
    was = before.nodes[node.index]
    joined = before.joined(was)
    for index, to in after.joined(node).items():
        if joined.get(index) != to:
            yield panel.join(index, to, node.name)
    met, meets = set(before.neighbours(was)), set(after.neighbours(node))
    for one in meets - met:
        name = f"{node.name}:{after.port(one.index - FIRST_INDEX).name}"
        yield rtnetlink.add_neighbour(one.index, one.address, one.mac, name)
    had, has = ({route.destination: route for route in one.routes} for one in (was, node))
    yield from (rtnetlink.remove_route(destination, node.name) for destination in had.keys() - has.keys())
    for destination, route in has.items():
        if had.get(destination) != route:
            yield rtnetlink.add_route(destination, route.hops, node.name, replaces=destination in had)
    yield from (rtnetlink.remove_neighbour(one.index, one.address, node.name) for one in met - meets)
