"""Links among which switches share traffic by hashing (ECMP): how much each carries is chance, the sum is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    """Yield the links that the paths of one connection have at the same step; parallel connections share nothing by
    hashing."""
    for paths in topology.connections(src, dst):
        if len(paths) > 1:
            yield from zip_longest(*(path.links for path in paths))
