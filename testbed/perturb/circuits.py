"""Circuits that carried light during a trial, and the cost of synchronisations over them; nothing is touched here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.model import Topology
from testbed.workloads import kinds
from testbed.workloads.plan import Plan
from testbed.workloads.sync.cost import IDEAL, Cost, Shaper, cost_of_flows
from testbed.workloads.sync.flows import Flows


class Carried(NamedTuple):
    """Bytes by source and destination, each int64[nodes, nodes]: of streams, and of all frames with their headers and
    acknowledgements."""

    stream_bytes: NDArray[np.int64]
    wire_bytes: NDArray[np.int64]


class State(NamedTuple):
    """Circuits that carry light from ``lit_s`` on, after those that went for them had been dark from ``dark_s`` on.

    ``carried`` is what passed over them, where processes told.
    """

    topology: Topology
    dark_s: float = -inf
    lit_s: float = -inf
    carried: Carried | None = None


History = Sequence[State]
"""Circuits that carried light, one state after the other."""


@dataclass(frozen=True, eq=False)
class MovedCost(Cost):
    """Cost of synchronisations over circuits that moved meanwhile: bytes are their mean, the bound is that of the
    best."""

    moved: ClassVar[bool] = True
    states: tuple[Cost, ...]

    def bound_s(self, shaper: Shaper = IDEAL) -> float:
        return min(one.bound_s(shaper) for one in self.states)


def reconfigured_cost(plan: Plan, history: History, iterations: int, gradient_bytes: float) -> Cost:
    """Mean cost of synchronisations whose processes told what passed over each state's circuits."""
    first = history[0].topology
    link_bytes = np.zeros(2 * len(first.links))
    for state in history:
        link_bytes += cost_of_flows(_carried(state), state.topology, 0).link_bytes / iterations
    gate = kinds.of(plan).gate
    assert gate is not None  # or processes would have told nothing
    mean: Cost = gate.cost(plan, first, gradient_bytes, link_bytes)
    return mean


def _carried(state: State) -> Flows:
    assert state.carried is not None
    counts = state.carried.stream_bytes
    sources, destinations = np.nonzero(counts)
    return Flows(sources, destinations, counts[sources, destinations].astype(np.float64))


def moved_cost(
    plan: Plan, history: History, windows: Sequence[tuple[float, float]], gradient_bytes: float
) -> MovedCost:
    """Cost of synchronisations in these windows (start, end in s).

    One in which circuits move is split by the time that each state's circuits carried light: while they move, whoever
    sends over them waits.
    """
    states = tuple(kinds.cost(plan, state.topology, gradient_bytes) for state in history)
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
