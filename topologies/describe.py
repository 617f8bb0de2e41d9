"""Description of a network in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from math import gcd
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from testbed.topologies.model import Topology
from testbed.topologies.panels import Panels


def describe(topology: Topology) -> dict[str, Any]:
    """Return counts and rates, ready for JSON.

    ``switches_by_level`` counts from level 1, next to the hosts; ``switch_ports`` are all that are used, and
    ``ports_per_switch`` each number of them that occurs; ``aggregating`` names the switches that add in the
    network; ``nics_per_host`` and ``link_rates_bps`` list each value that occurs; ``racks`` is None where hosts have
    none; ``bisection_bps`` as in :func:`bisection_bps`; ``notes`` are those of a file. Of a BCube,
    ``fat_tree_switches`` is how many switches of its size a fat-tree of as many hosts would take: 5 N / n against its
    k N / n (BML, section 3.1). Patch panels are no switches, and have keys of their own.
    """
    hosts = [topology.nodes[h] for h in topology.hosts]
    switches = [s for s in topology.switches if topology.nodes[s].kind == "switch"]
    levels = Counter(topology.nodes[s].level for s in switches)
    racks = {host.rack for host in hosts}
    found = {
        "expression": topology.expression,
        "family": topology.family,
        "hosts": topology.host_count,
        "switches": len(switches),
        "switches_by_level": {str(level): levels[level] for level in sorted(levels)},
        "switch_ports": sum(len(topology.ports[s]) for s in switches),
        "ports_per_switch": sorted({len(topology.ports[s]) for s in switches}),
        "aggregating": [topology.nodes[s].name for s in topology.switches if topology.nodes[s].ina],
        "links": len(topology.links),
        "nics_per_host": sorted({len(topology.ports[h]) for h in topology.hosts}),
        "racks": None if None in racks else len(racks),
        "link_rates_bps": sorted({link.rate_bps for link in topology.links}),
        "bisection_bps": bisection_bps(topology),
    }
    if topology.notes:
        found["notes"] = list(topology.notes)
    n = topology.params.get("n")
    if topology.family == "bcube" and isinstance(n, int):
        found["fat_tree_switches"] = 5 * topology.host_count / n
    return found if topology.panels is None else {**found, **_describe_panels(topology.panels)}


def _describe_panels(panels: Panels) -> dict[str, Any]:
    """Describe patch panels; ``dark_ports`` are the ports of all interfaces at which no lit circuit ends."""
    lit = sum(map(len, panels.lit))
    return {
        "patch_panels": len(panels.sides) * panels.degree,
        "circuits": lit,
        "dark_ports": panels.servers * panels.degree - 2 * lit,
        "reconfiguration_s": panels.reconfiguration_s,
    }


def bisection_bps(topology: Topology) -> float | None:
    """Compute how much (bit/s) one half of the hosts can send the other, one way, for the worst choice of halves.

    An odd host goes to either half. Where no closed form is known (BCube with odd n, spine-leaf or cloud with an odd
    number of racks, racks of different sizes, dragonfly, circuits, a topology from a user's own builder, links of a
    level that differ), every choice of halves is looked at, and of more than ``MOST_TRIED`` hosts it is None.
    """
    formula = _FORMULAS.get(topology.family)
    known = formula(topology) if formula and _alike(topology) else None
    return _least_cut(topology) if known is None and topology.host_count <= MOST_TRIED else known


def _alike(topology: Topology) -> bool:
    """Whether links between the same levels have the same rate, as a family builds them."""
    found: dict[frozenset[int], int] = {}
    for link in topology.links:
        levels = frozenset({topology.nodes[link.a].level, topology.nodes[link.b].level})
        if found.setdefault(levels, link.rate_bps) != link.rate_bps:
            return False
    return True


MOST_TRIED = 11
"""Hosts up to which all halves are tried: 462 halves, each a maximum flow, take a fifth of a second."""


def _least_cut(topology: Topology) -> float | None:
    """Compute the least flow between two halves of the hosts; None where rates have too little in common for SciPy's 32
    bits."""
    rates = [link.rate_bps for link in topology.links]
    unit = gcd(*rates)
    ends = [(link.a, link.b, rate // unit) for link, rate in zip(topology.links, rates, strict=True)]
    if topology.panels is not None:
        pairs = [(link, out) for link, out in topology.circuits.items() if link < out]
        ends = [(topology.tail(link), topology.head(out), rates[link // 2] // unit) for link, out in pairs]
    source, sink, size = len(topology.nodes), len(topology.nodes) + 1, len(topology.nodes) + 2
    without = least = sum(rate for *_, rate in ends) * 2
    if without > np.iinfo(np.int32).max:
        return None
    capacity = np.zeros((size, size), np.int32)
    for a, b, rate in ends:
        capacity[a, b] += rate
        capacity[b, a] += rate
    for half in combinations(topology.hosts, topology.host_count // 2):
        tried = capacity.copy()
        tried[source, list(half)] = without
        tried[[host for host in topology.hosts if host not in half], sink] = without
        least = min(least, int(maximum_flow(csr_array(tried), source, sink).flow_value))
    return float(least * unit)


def _non_blocking(topology: Topology) -> float:
    """Return the bisection where only the hosts' own links limit them."""
    return float(topology.host_count // 2 * topology.links[0].rate_bps)


def _bcube(topology: Topology) -> float | None:
    """Return the bisection of a BCube, whose halves differ in the top digit: one link of each host."""
    return None if len(topology.ports[-1]) % 2 else _non_blocking(topology)


def _racks(topology: Topology) -> float | None:
    """Return the bisection between half the racks and the others; each sends what its uplinks carry, or what its hosts
    do if that is less. A fat-tree's layers above the edge switches do not block (Al-Fares et al., section 2.1)."""
    leaves = [switch for switch in topology.switches if topology.nodes[switch].level == 1]
    if len(leaves) % 2 or {"hosts", "sizes"} & topology.params.keys():  # racks may have different numbers of hosts
        return None
    down_bps = up_bps = 0
    for directed in topology.ports[leaves[0]]:
        rate_bps = topology.links[directed // 2].rate_bps
        if topology.head(directed) < topology.host_count:
            down_bps += rate_bps
        else:
            up_bps += rate_bps
    return float(len(leaves) // 2 * min(down_bps, up_bps))


_FORMULAS: dict[str, Callable[[Topology], float | None]] = {
    "star": _non_blocking,
    "bcube": _bcube,
    "fat_tree": _racks,
    "spine_leaf": _racks,
    "cloud": _racks,
}
