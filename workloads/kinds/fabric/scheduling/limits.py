"""Links of a path that may limit a transfer. Pure logic, no I/O.

Most paths have links that never do: the uplink of a rack carries all that its hosts can send. Such a link always has at
least as much left as the links before it together, or as the links behind it together. What transfers take of it they
take of one of these, too. So that stays true, whatever is reserved, and who looks for the moment at which a transfer
ends can leave the link out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import NamedTuple

from testbed.workloads.kinds.fabric.scheduling.network import Network
from testbed.workloads.kinds.fabric.scheduling.residual import covers

NO_LINK = -1
"""Stands for the place before the first link of a path, and behind its last."""


class Funnel(NamedTuple):
    """The place where transfers to a node meet: the only link that limits those from these sources, besides their own
    link."""

    link: int
    sources: frozenset[int]


class Limits:
    """The links that limit transfers from some nodes to others, in a state of a network and whatever these reserve in
    it.

    Raises:
        SchemeError: two of the nodes have several paths.
    """

    def __init__(self, network: Network, sources: Iterable[int], targets: Iterable[int]) -> None:
        self._network = network
        self._ways: dict[tuple[int, int], tuple[int, ...]] = {}
        self._sources, targets = frozenset(sources), set(targets)
        leaves = [network.leaf(node) for node in self._sources | targets]
        self._is_star = all(leaves) and len({leaf.switch for leaf in leaves if leaf}) == 1
        self._needless = set[int]() if self._is_star else _needless(network, self._sources, targets)

    def of(self, source: int, target: int) -> tuple[int, ...]:
        """Return the links of the path that may limit a transfer; none from a node to itself."""
        known = self._ways.get((source, target))
        if known is None:
            path = self._network.path(source, target)
            known = self._ways[source, target] = tuple(link for link in path if link not in self._needless)
        return known

    def funnel(self, target: int) -> Funnel | None:
        """Return the funnel of most sources; None if there is none."""
        leaf = self._network.leaf(target)
        if self._is_star and leaf:
            return Funnel(leaf.into, self._sources)
        meeting: dict[int, set[int]] = defaultdict(set)
        for source in self._sources:
            own, way = self._network.leaf(source), self.of(source, target)
            if own and own.out in way and len(way) == 2:
                meeting[way[0] if way[1] == own.out else way[1]].add(source)
        link = max(meeting, key=lambda link: len(meeting[link]), default=None)
        return None if link is None else Funnel(link, frozenset(meeting[link]))


def _needless(network: Network, sources: Collection[int], targets: Collection[int]) -> set[int]:
    """Find the links that limit nothing. Links that leave a source are not considered."""
    before, after = defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
    for path in [network.path(source, target) for source in sources for target in targets if source != target]:
        for link, following in pairwise((NO_LINK, *path, NO_LINK)):
            after[link].add(following)
            before[following].add(link)
    leaves = {leaf.out for leaf in map(network.leaf, sources) if leaf}
    found = {NO_LINK}
    for link in sorted(after.keys() - leaves - found, key=lambda link: NO_LINK in after[link]):
        for others in (before[link], after[link]):
            if found.isdisjoint(others) and covers(network.residual(link), [network.residual(one) for one in others]):
                found.add(link)
                break
    return found
