"""Names of the circuits of patch panels by their purpose: a ring, or the matching of a panel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from testbed.topologies.model import Topology

Circuit = tuple[int, int, int]
"""Interface, and two servers, the lower first."""


def circuit_names(topology: Topology) -> dict[Circuit, str]:
    """Name each lit circuit: ``ring of stride 3``, ``ring 2`` for one in an order of its own, or ``panel 4``.

    Rings over all servers have two panels each. On the panels after those a circuit is a ring's if it joins two of its
    neighbours, and if ``circuits`` does not name it.
    """
    assert topology.panels is not None
    rings = [(_name(place, ring), _order(topology, ring)) for place, ring in enumerate(_rings(topology), 1)]
    whole = [name for name, order in rings if len(order) == topology.host_count for _ in range(2)]
    smaller_last = sorted(rings, key=lambda ring: -len(ring[1]))  # in a picture a small ring is more than a ring's rest
    owner = {pair: name for name, order in smaller_last for pair in _neighbours(order)}
    found = {}
    for panel, pairs in enumerate(topology.panels.lit):
        given = _given(topology, panel - len(whole))
        for a, b in pairs:
            shared = f"panel {panel}" if f"{a}-{b}" in given else owner.get((a, b), f"panel {panel}")
            found[panel, a, b] = whole[panel] if panel < len(whole) else shared
    return found


def _rings(topology: Topology) -> Sequence[object]:
    given = topology.params.get("rings", () if "circuits" in topology.params else (1,))
    return given if isinstance(given, list | tuple) else ()


def _name(place: int, ring: object) -> str:
    return f"ring of stride {ring}" if isinstance(ring, int) else f"ring {place}"


def _order(topology: Topology, ring: object) -> list[int]:
    if isinstance(ring, int):
        return [step * ring % topology.host_count for step in topology.hosts]
    return list(ring) if isinstance(ring, list | tuple) else []


def _neighbours(order: Sequence[int]) -> list[tuple[int, int]]:
    return [(min(pair), max(pair)) for pair in pairwise([*order, order[0]])] if order else []


def _given(topology: Topology, place: int) -> set[str]:
    """Return the circuits of a list of ``circuits``, as that writes them, and the other way round."""
    lists = topology.params.get("circuits", ())
    if not isinstance(lists, list | tuple) or not 0 <= place < len(lists):
        return set()
    words = [str(word).split("-") for word in lists[place]]
    return {"-".join(ends) for word in words for ends in (word, word[::-1])}
