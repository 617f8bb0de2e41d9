"""Price of a network: its switch ports, NICs, transceivers, cables and patch panels, from a table of prices.

The table that comes with us is TopoOpt's Table 3, "the lowest available prices in official retailer websites"; a user's
own replaces it. Servers themselves are not in it, nor is power.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from testbed.base.units import rate_text
from testbed.topologies.model import Topology


@dataclass(frozen=True)
class PortPrices:
    """Prices for a port of one rate, in dollars."""

    nic: float
    switch_port: float
    transceiver: float
    """Price for one end of a cable; 0 where the cable has its transceivers already."""


@dataclass(frozen=True)
class Prices:
    """Prices in dollars.

    Attributes:
        source: where they are from.
        ports: by rate (bit/s), at least one. A port of a rate between two is one of the faster kind, and one faster
            than all is several of the fastest.
        cable: of one cable between two ports, and of each fibre into a patch panel.
        panel_port, circuit_switch_port: of a port of a patch panel, and of one that optical circuit switches have.
        look_ahead_switch: of the 1x2 switch that look-ahead gives an interface.
    """

    source: str
    ports: Mapping[int, PortPrices]
    cable: float
    panel_port: float
    circuit_switch_port: float
    look_ahead_switch: float


TOPOOPT = Prices(
    source="TopoOpt, Table 3; cables of 500 m at 30 cents, the mean of section 5.2",
    ports={
        10 * 10**9: PortPrices(nic=180, switch_port=87, transceiver=20),
        25 * 10**9: PortPrices(nic=185, switch_port=144, transceiver=39),
        40 * 10**9: PortPrices(nic=376, switch_port=144, transceiver=39),
        100 * 10**9: PortPrices(nic=660, switch_port=225, transceiver=99),
        200 * 10**9: PortPrices(nic=790, switch_port=450, transceiver=198),
    },
    cable=0.30 * 500,
    panel_port=100,
    circuit_switch_port=520,
    look_ahead_switch=25,
)


@dataclass(frozen=True)
class Item:
    """One kind of part: how many, at what price each."""

    name: str
    count: int
    price: float

    @property
    def total(self) -> float:
        return self.count * self.price


def bill(topology: Topology, prices: Prices = TOPOOPT) -> tuple[Item, ...]:
    """List the parts of a network, in the order of :class:`Prices`. Every end of a link has a transceiver but at a
    patch panel, which is passive."""
    counts: Counter[tuple[str, float]] = Counter()
    for link in topology.links:
        rate_bps, parallel = _part(link.rate_bps, prices)
        each, gbps = prices.ports[rate_bps], f"{rate_bps / 1e9:g} Gbit/s"
        for node in (link.a, link.b):
            kind = topology.nodes[node].kind
            if kind == "panel":
                continue
            name, price = ("NIC", each.nic) if kind == "host" else ("switch port", each.switch_port)
            counts[f"{name} {gbps}", price] += parallel
            counts[f"transceiver {gbps}", each.transceiver] += parallel
        counts["cable", prices.cable] += parallel * _sides(topology, link.a, link.b)
    if topology.panels is not None:
        assert topology.panels is not None
        panels = topology.panels
        passive = topology.params.get("technology", "patch_panel") == "patch_panel"
        ports = (
            ("patch panel port", prices.panel_port) if passive else ("circuit switch port", prices.circuit_switch_port)
        )
        interfaces, sides = panels.servers * panels.degree, len(panels.sides)
        switches = {("1x2 switch", prices.look_ahead_switch): interfaces} if sides > 1 else {}
        counts.update({ports: interfaces * sides, **switches})
    order = ("NIC", "switch port", "transceiver", "cable")
    found = [Item(name, count, price) for (name, price), count in counts.items()]
    return tuple(sorted(found, key=lambda item: (_place(item.name, order), item.price)))


def _place(name: str, order: tuple[str, ...]) -> int:
    return next((i for i, word in enumerate(order) if name.startswith(word)), len(order))


def _part(rate_bps: int, prices: Prices) -> tuple[int, int]:
    """Return the rate of the parts that carry ``rate_bps``, and how many of them are side by side."""
    fitting = [rate for rate in prices.ports if rate >= rate_bps]
    if fitting:
        return min(fitting), 1
    fastest = max(prices.ports)
    return fastest, math.ceil(rate_bps / fastest)


def _sides(topology: Topology, *ends: int) -> int:
    """Count the cables of a link: two where it leads to a panel with look-ahead, one to each side's panel."""
    has_panel = any(topology.nodes[end].kind == "panel" for end in ends)
    return len(topology.panels.sides) if topology.panels and has_panel else 1


def total(items: tuple[Item, ...]) -> float:
    """Add up the prices (dollars) of all parts."""
    return sum(item.total for item in items)


def rate_that_costs(dollars: float, network: Callable[[int], Topology], prices: Prices = TOPOOPT) -> float | None:
    """Return the rate (bit/s) at which a network costs so much: TopoOpt's cost-equivalent one (section 5.1).

    :func:`bill` rises in steps, since no part is sold for a rate between two. Here the cost is linear between the rates
    that have prices, and in proportion to the rate above the fastest, as several of it are.

    Args:
        network: makes the network with links of a rate (bit/s).

    Returns:
        None if already the slowest parts cost more.
    """
    costs = {rate_bps: total(bill(network(rate_bps), prices)) for rate_bps in sorted(prices.ports)}
    fastest_bps = max(costs)
    if dollars >= costs[fastest_bps]:
        return fastest_bps * dollars / costs[fastest_bps]
    for (low_bps, low), (high_bps, high) in reversed(list(pairwise(costs.items()))):
        if low <= dollars < high:
            return low_bps + (high_bps - low_bps) * (dollars - low) / (high - low)
    return None


def describe_cost(topology: Topology, prices: Prices = TOPOOPT) -> dict[str, Any]:
    """Return the bill, ready for JSON."""
    items = bill(topology, prices)
    whole = total(items)
    rates_bps = sorted({link.rate_bps for link in topology.links})
    slowest_bps = min(prices.ports)
    return {
        "priced_as": {rate_text(rate): rate_text(slowest_bps) for rate in rates_bps if rate < slowest_bps},
        "source": prices.source,
        "items": [{"item": i.name, "count": i.count, "each": i.price, "total": i.total} for i in items],
        "total": whole,
        "per_host": whole / topology.host_count,
    }
