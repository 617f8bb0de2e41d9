"""Fair shares of links: at what rates flows go that all send as much as they can."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from testbed.topologies.model import Topology


def loads(topology: Topology, flow: tuple[int, int]) -> dict[int, float]:
    """Compute the share of a flow, from a host to another, that each directed link carries."""
    found: dict[int, float] = defaultdict(float)
    for path in topology.paths(*flow):
        for link in path.links:
            found[link] += path.weight
    return found


def fair_bps(flows: Sequence[Mapping[int, float]], topology: Topology) -> list[float]:
    """Compute max-min fair rates of flows whose shares are on directed links as ``flows`` say: all grow alike until a
    link is full, which holds those on it, and so on (Bertsekas and Gallager, Data Networks, section 6.5.2)."""
    left = {link: float(topology.links[link // 2].rate_bps) for each in flows for link in each}
    rates, growing = [0.0] * len(flows), set(range(len(flows)))
    while growing:
        demand: dict[int, float] = defaultdict(float)
        for flow in growing:
            for link, share in flows[flow].items():
                demand[link] += share
        full = min(demand, key=lambda link: left[link] / demand[link])
        more_bps = left[full] / demand[full]
        for link, share in demand.items():
            left[link] -= more_bps * share
        for flow in growing:
            rates[flow] += more_bps
        growing -= {flow for flow in growing if full in flows[flow]}
    return rates
