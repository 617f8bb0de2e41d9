"""What a move of circuits makes of a network, in words and in bytes; nothing is touched here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

from testbed.errors import SpecError
from testbed.perturb import targets
from testbed.spec.perturb import Circuits
from topologies.call import as_text
from topologies.circuits import matchings, paths
from topologies.model import Topology
from topologies.panels import Panels
from topologies.patch_panel import repatched
from workloads.sync.cost import IDEAL, Cost, Shaper, cost
from workloads.sync.forest import Forest

History = Sequence[tuple[float, Topology]]
"""From when on (s) which circuits carried light, the first from the beginning."""


def panels_of(topology: Topology) -> Panels:
    """
    Raises:
        SpecError: the network has no patch panels.
    """
    if topology.panels is None:
        raise SpecError(
            f"{topology.expression} has no patch panels", fix="write it at the arm that has them, in its own perturb"
        )
    return topology.panels


def moved(topology: Topology, move: Circuits) -> Topology:
    """The network after a move.

    Raises:
        SpecError: it has no patch panels or look-ahead, or the circuits or routes are none.
    """
    panels = panels_of(topology)
    if move.flip is not None:
        panels = panels.flip(() if move.flip == "all" else targets.hosts(topology, move.flip))
    else:
        found = matchings(panels.servers, panels.degree, move.rings, move.circuits)
        panels = panels.patch(found, look_ahead=move.look_ahead)
    if move.routes:
        panels = replace(panels, routes=paths(panels.servers, move.routes))
    return repatched(topology, panels)


def dark_s(topology: Topology, move: Circuits) -> float:
    """For how long what moves is dark. TopoOpt gives no time for 1x2 switches: they "immediately" flip (section 4)."""
    if move.reconfiguration_s is not None:
        return move.reconfiguration_s
    return 0.0 if move.flip is not None else panels_of(topology).reconfiguration_s


def words(move: Circuits) -> str:
    """``to rings=[1,3]``, ``flip of h0, h1``, ``look-ahead to rings=[3]``."""
    if move.flip is not None:
        return f"flip of {move.flip if move.flip == 'all' else ', '.join(move.flip)}"
    given = {"rings": move.rings, "circuits": move.circuits}
    to = ",".join(f"{name}={as_text(value)}" for name, value in given.items() if value)
    return f"{'look-ahead ' * move.look_ahead}to {to}"


@dataclass(frozen=True, eq=False)
class MovedCost(Cost):
    """Synchronisations over circuits that moved meanwhile: bytes are their mean, the bound is that of the best."""

    states: tuple[Cost, ...]

    def bound_s(self, shaper: Shaper = IDEAL) -> float:
        return min(one.bound_s(shaper) for one in self.states)


def moved_cost(
    forest: Forest, history: History, windows: Sequence[tuple[float, float]], gradient_bytes: float
) -> MovedCost:
    """What synchronisations in these windows (start, end in s) cost; one in which circuits move is split by time."""
    states = tuple(cost(forest, topology, gradient_bytes) for _, topology in history)
    moments = [-inf, *(from_s for from_s, _ in history[1:]), inf]
    counts = [
        sum(max(0.0, min(end, until_s) - max(start, from_s)) / (end - start) for start, end in windows)
        for from_s, until_s in pairwise(moments)
    ]
    mean = sum(one.link_bytes * count for one, count in zip(states, counts, strict=True)) / len(windows)
    return MovedCost(**vars(states[0]) | {"link_bytes": mean}, states=states)
