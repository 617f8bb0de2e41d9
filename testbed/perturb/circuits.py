"""What a move of circuits makes of a network, in words and in bytes; nothing is touched here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np

from testbed.base.errors import SpecError
from testbed.perturb import targets
from testbed.spec.perturb import Circuits
from topologies.call import as_text
from topologies.circuits import matchings, paths
from topologies.model import Topology
from topologies.panels import Panels
from topologies.patch_panel import repatched
from workloads import kinds
from workloads.sync.cost import IDEAL, Cost, Shaper
from workloads.sync.forest import Forest


class State(NamedTuple):
    """Circuits that carry light from ``lit_s`` on, after those that went for them had been dark from ``dark_s`` on."""

    topology: Topology
    dark_s: float = -inf
    lit_s: float = -inf


History = Sequence[State]
"""Which circuits carried light, one state after the other."""


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

    moved: ClassVar[bool] = True
    states: tuple[Cost, ...]

    def bound_s(self, shaper: Shaper = IDEAL) -> float:
        return min(one.bound_s(shaper) for one in self.states)


def moved_cost(
    forest: Forest, history: History, windows: Sequence[tuple[float, float]], gradient_bytes: float
) -> MovedCost:
    """What synchronisations in these windows (start, end in s) cost.

    One in which circuits move is split by the time that each state's circuits carried light: while they move, whoever
    sends over them waits.
    """
    states = tuple(kinds.cost(forest, state.topology, gradient_bytes) for state in history)
    lit_from_s = np.array([state.lit_s for state in history])
    lit_until_s = np.array([*(state.dark_s for state in history[1:]), inf])
    shares = np.zeros(len(states))
    for start, end in windows:
        lit_s = np.maximum(0.0, np.minimum(end, lit_until_s) - np.maximum(start, lit_from_s))
        if not lit_s.any():  # over circuits that did not move, so before and after are alike
            lit_s[np.searchsorted(lit_from_s, end, "right") - 1] = 1.0
        shares += lit_s / lit_s.sum()
    mean = sum(one.link_bytes * share for one, share in zip(states, shares, strict=True)) / len(windows)
    return MovedCost(**vars(states[0]) | {"link_bytes": mean}, states=states)
