"""How traffic shares links: by hashing (ECMP), where how much each link carries is chance and the sum is not; and
the fair rates of flows that all send as much as they can."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from testbed.topologies.model import Topology


def groups(topology: Topology, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Group the directed links, each once, by which of them share the traffic of ``pairs`` (source, destination).

    A flow takes one of its pair's paths. So what its paths have at the same step goes together, and in a group all of
    the flow is counted, whichever path it took. A link that no pair uses, or that is on all paths, is alone.
    """
    parent = list(range(2 * len(topology.links)))

    def root(link: int) -> int:
        while parent[link] != link:
            parent[link] = parent[parent[link]]
            link = parent[link]
        return link

    for src, dst in pairs:
        for step in _steps(topology, src, dst):
            known = [link for link in step if link is not None]
            for link in known[1:]:
                parent[root(link)] = root(known[0])
    found: dict[int, list[int]] = {}
    for link in range(len(parent)):
        found.setdefault(root(link), []).append(link)
    return [tuple(links) for links in found.values()]


def _steps(topology: Topology, src: int, dst: int) -> Iterator[tuple[int | None, ...]]:
    """Yield the links that the paths of one connection have at the same step."""
    for paths in topology.connections(src, dst):
        if len(paths) > 1:
            yield from zip_longest(*(path.links for path in paths))


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
