"""Which panel each circuit is on.

A panel has one port of each server, so its circuits are a matching: those of a ring go to two panels by turns, and if
its servers are odd in number, the last one has to go to a third. Rings over all servers fill the first panels, two
each. All else shares the panels after those: first given matchings, a panel each, then what finds its ports free on the
lowest panel: the last circuits of odd rings, and rings that leave servers out. Two servers are one circuit.

Whoever takes ports that a layout left dark, and gives them as matchings, gets the same layout again: each ring meets
the same ports taken below the panels that it went to, and free on those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice

from topologies.panels import Matching

Pairs = list[tuple[int, int]]


def lay(servers: int, rings: Sequence[Sequence[int]], given: Sequence[Pairs] = ()) -> tuple[Matching, ...]:
    """By panel, the circuits of rings, each the servers that it passes, and of given matchings; dark ones last are
    left out."""
    whole = [ring for ring in rings if len(ring) == servers]
    layout = _Layout(first_shared=2 * len(whole))
    for panel, pairs in enumerate(given, layout.first_shared):
        layout.add(panel, pairs)
    for number, ring in enumerate(whole):
        layout.add_ring(ring, (2 * number, 2 * number + 1))
    for ring in rings:
        if len(ring) == 2 < servers:
            layout.add(next(layout.free(ring)), [(min(ring), max(ring))])
        elif len(ring) < servers:
            layout.add_ring(ring, tuple(islice(layout.free(ring), 2)))
    return layout.panels()


class _Layout:
    def __init__(self, first_shared: int) -> None:
        self.first_shared = first_shared
        self._pairs: dict[int, Pairs] = {}
        self._taken: dict[int, set[int]] = {}
        """By panel, the servers whose ports there are."""

    def add(self, panel: int, pairs: Iterable[tuple[int, int]]) -> None:
        self._pairs.setdefault(panel, []).extend(pairs)
        self._taken.setdefault(panel, set()).update(server for pair in self._pairs[panel] for server in pair)

    def free(self, servers: Iterable[int]) -> Iterator[int]:
        """The panels on which all of these have a dark port, from the lowest shared one on."""
        wanted = set(servers)
        return (panel for panel in count(self.first_shared) if not wanted & self._taken.get(panel, set()))

    def add_ring(self, ring: Sequence[int], turns: tuple[int, ...]) -> None:
        pairs = [(min(a, b), max(a, b)) for a, b in zip(ring, (*ring[1:], ring[0]), strict=True)]
        if len(pairs) % 2:
            panel, place = self._place(pairs, turns)
            self.add(panel, [pairs[place]])
            pairs = pairs[place + 1 :] + pairs[:place]
        self.add(turns[0], pairs[::2])
        self.add(turns[1], pairs[1::2])

    def _place(self, pairs: Pairs, turns: tuple[int, ...]) -> tuple[int, int]:
        """The first panel and circuit of an odd ring that fit together."""
        return next(
            (panel, place)
            for panel in count(self.first_shared)
            if panel not in turns
            for place, pair in enumerate(pairs)
            if not self._taken.get(panel, set()).intersection(pair)
        )

    def panels(self) -> tuple[Matching, ...]:
        last = max(self._pairs, default=-1)
        return tuple(tuple(sorted(self._pairs.get(panel, ()))) for panel in range(last + 1))
