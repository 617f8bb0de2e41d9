"""Laying of circuits: the panel that each is on.

A panel has one port of each server, so its circuits are a matching: those of a ring go to two panels by turns, and if
its servers are odd in number, the last one has to go to a third. Rings over all servers fill the first panels, two
each. All else shares the panels after those: first given matchings, a panel each, then what finds its ports free on the
lowest panel: the last circuits of odd rings, and rings that leave servers out. Two servers are one circuit.

Matchings of ports that a layout left dark, given to the same rings, do not move those: what each ring took is still
free when its turn comes, and nothing else has become so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice, product

from testbed.topologies.panels import Matching

Pairs = list[tuple[int, int]]


def lay(servers: int, rings: Sequence[Sequence[int]], given: Sequence[Pairs] = ()) -> tuple[Matching, ...]:
    """Lay the circuits of rings, each the servers that it passes, and of given matchings; return those of each panel.
    Dark panels at the end are left out."""
    whole = [ring for ring in rings if len(ring) == servers]
    layout = _Layout(first_shared=2 * len(whole))
    for panel, pairs in enumerate(given, layout.first_shared):
        layout.add(panel, pairs)
    for number, ring in enumerate(whole):
        layout.add_whole(_closed(ring), 2 * number)
    for ring in rings:
        if len(ring) < servers:
            layout.add_smaller(_closed(ring) if len(ring) > 2 else [(min(ring), max(ring))])
    return layout.panels()


def _closed(ring: Sequence[int]) -> Pairs:
    return [(min(pair), max(pair)) for pair in zip(ring, (*ring[1:], ring[0]), strict=True)]


def _turns(pairs: Pairs, place: int) -> tuple[Pairs, Pairs, Pairs]:
    """Split an odd ring into the circuit at a place, and the others by turns."""
    rest = pairs[place + 1 :] + pairs[:place]
    return [pairs[place]], rest[::2], rest[1::2]


class _Layout:
    def __init__(self, first_shared: int) -> None:
        self.first_shared = first_shared
        self._pairs: dict[int, Pairs] = {}
        self._taken: dict[int, set[int]] = {}
        """Servers whose ports are taken, by panel."""

    def add(self, panel: int, pairs: Pairs) -> None:
        self._pairs.setdefault(panel, []).extend(pairs)
        self._taken.setdefault(panel, set()).update(*pairs)

    def add_whole(self, pairs: Pairs, panel: int) -> None:
        """Add a ring over all servers, on this panel, the next, and, if it is odd, the lowest where a circuit fits."""
        if len(pairs) % 2:
            shared = next(p for p in count(self.first_shared) if any(self._fits(p, [pair]) for pair in pairs))
            place = next(i for i, pair in enumerate(pairs) if self._fits(shared, [pair]))
            last, one, other = _turns(pairs, place)
            self.add(shared, last)
        else:
            one, other = pairs[::2], pairs[1::2]
        self.add(panel, one)
        self.add(panel + 1, other)

    def add_smaller(self, pairs: Pairs) -> None:
        """Add a ring that leaves servers out, or a single circuit, on the lowest panels.

        Of all ways, the one whose highest panel is lowest: taking ports that it leaves dark makes none better.
        """
        ways: list[tuple[Pairs, ...]]
        if len(pairs) == 1:
            ways = [(pairs,)]
        elif len(pairs) % 2:
            ways = [_turns(pairs, place) for place in range(len(pairs))]
        else:
            ways = [(pairs[::2], pairs[1::2])]
        _, way, panels = min(self._best(number, parts) for number, parts in enumerate(ways))
        for panel, part in zip(panels, ways[way], strict=True):
            self.add(panel, part)

    def _best(self, way: int, parts: tuple[Pairs, ...]) -> tuple[int, int, tuple[int, ...]]:
        """Return the highest panel of a way, its number, and the panels of its parts, each another."""
        free = [
            list(islice((p for p in count(self.first_shared) if self._fits(p, part)), len(parts))) for part in parts
        ]
        return min((max(panels), way, panels) for panels in product(*free) if len(set(panels)) == len(parts))

    def _fits(self, panel: int, pairs: Pairs) -> bool:
        taken = self._taken.get(panel, set())
        return all(taken.isdisjoint(pair) for pair in pairs)

    def panels(self) -> tuple[Matching, ...]:
        last = max(self._pairs, default=-1)
        return tuple(tuple(sorted(self._pairs.get(panel, ()))) for panel in range(last + 1))
