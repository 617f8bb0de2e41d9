"""What a network consists of, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from topologies.model import Topology
from topologies.panels import Panels


def describe(topology: Topology) -> dict[str, Any]:
    """Counts and rates, ready for JSON.

    ``switches_by_level`` counts from level 1, next to the hosts; ``aggregating`` names the switches that add in the
    network; ``nics_per_host`` and ``link_rates_bps`` list each value that occurs; ``racks`` is None where hosts have
    none; ``bisection_bps`` as in :func:`bisection_bps`. Patch panels are no switches, and have
    keys of their own.
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
        "aggregating": [topology.nodes[s].name for s in topology.switches if topology.nodes[s].ina],
        "links": len(topology.links),
        "nics_per_host": sorted({len(topology.ports[h]) for h in topology.hosts}),
        "racks": None if None in racks else len(racks),
        "link_rates_bps": sorted({link.rate_bps for link in topology.links}),
        "bisection_bps": bisection_bps(topology),
    }
    return found if topology.panels is None else {**found, **_describe_panels(topology.panels)}


def _describe_panels(panels: Panels) -> dict[str, Any]:
    """``dark_ports`` are those of all interfaces that no lit circuit ends at."""
    lit = sum(map(len, panels.lit))
    return {
        "patch_panels": len(panels.sides) * panels.degree,
        "circuits": lit,
        "dark_ports": panels.servers * panels.degree - 2 * lit,
        "reconfiguration_s": panels.reconfiguration_s,
    }


def bisection_bps(topology: Topology) -> float | None:
    """What the two halves of the hosts can send each other, one way, in bit/s, for the worst choice of halves.

    An odd host goes to either half. None where no closed form is known: BCube with odd n, spine-leaf with an odd
    number of racks, a topology from a user's own builder.
    """
    formula = _FORMULAS.get(topology.family)
    return formula(topology) if formula else None


def _non_blocking(topology: Topology) -> float:
    """Only the hosts' own links limit them; a fat-tree's by design (Al-Fares et al., section 2.1)."""
    return float(topology.host_count // 2 * topology.links[0].rate_bps)


def _bcube(topology: Topology) -> float | None:
    """Halves that differ in the top digit exchange over that level's switches alone: one link of each host."""
    return None if len(topology.ports[-1]) % 2 else _non_blocking(topology)


def _spine_leaf(topology: Topology) -> float | None:
    """Half the racks against the other; each sends what its uplinks carry, or what its hosts do if that is less."""
    leaves = [switch for switch in topology.switches if topology.nodes[switch].level == 1]
    if len(leaves) % 2:
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
    "fat_tree": _non_blocking,
    "spine_leaf": _spine_leaf,
}
