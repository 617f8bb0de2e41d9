"""Circuits that carried light during a trial, and the cost of synchronisations over them; nothing is touched here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
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

    ``carried`` is what passed over them, where processes told. ``sent`` counts the synchronisations whose bytes had
    been sent when they began to be dark, with the share of one that was under way, where that is known.
    ``counted_bytes`` is what all links together had carried of the trial by then, where the kernel counts it.
    """

    topology: Topology
    dark_s: float = -inf
    lit_s: float = -inf
    carried: Carried | None = None
    sent: float | None = None
    counted_bytes: float | None = None


History = Sequence[State]
"""Circuits that carried light, one state after the other."""
MEAN = ("link_bytes", "wire_bytes", "cross_rack_bytes")
"""Fields of a cost that several costs have the mean of."""


@dataclass(frozen=True, eq=False)
class MovedCost(Cost):
    """Cost of synchronisations that went over circuits that moved, or by several plans: bytes are the mean, the bound
    is that of the best."""

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


def lit_shares(history: History, window: tuple[float, float]) -> NDArray[np.float64]:
    """Return the shares of a synchronisation in this window (start, end in s) that went over each state's circuits,
    float64[states], by the time that they carried light: while they move, whoever sends over them waits."""
    start_s, end_s = window
    lit_from_s = np.array([state.lit_s for state in history])
    lit_until_s = np.array([*(state.dark_s for state in history[1:]), inf])
    lit_s = np.maximum(0.0, np.minimum(end_s, lit_until_s) - np.maximum(start_s, lit_from_s))
    if not lit_s.any():  # over circuits that did not move, so before and after are alike
        lit_s[np.searchsorted(lit_from_s, end_s, "right") - 1] = 1.0
    shares: NDArray[np.float64] = lit_s / lit_s.sum()
    return shares


def by_count(
    history: History,
    each_bytes: Sequence[float],
    windows: Mapping[int, tuple[float, float]],
    counted_bytes: tuple[float, float],
) -> History:
    """Return the history with what had been sent when circuits moved, by what links had carried until then.

    A synchronisation puts ``each_bytes`` on all links together, by state. Headers and acknowledgements are taken to add
    the same share throughout; ``counted_bytes`` are those before the first synchronisation and after the last one. The
    ``windows`` of these (start, end in s) tell which one was under way.
    """
    counted = [state.counted_bytes for state in history[1:]]
    if None in counted:
        return history
    before_bytes, total_bytes = counted_bytes
    carried = np.diff(np.array([before_bytes, *counted, total_bytes], float)) / each_bytes
    if not np.all(carried >= 0) or not carried.any():
        return history
    sent = np.cumsum(carried * len(windows) / carried.sum())
    starts_s, ends_s = (np.sort(moments) for moments in zip(*windows.values(), strict=True))
    first, *moved = history
    with_sent = [first]
    for state, count in zip(moved, sent[:-1].tolist(), strict=True):
        ended, begun = (int(np.searchsorted(moments, state.dark_s, "right")) for moments in (ends_s, starts_s))
        with_sent.append(state._replace(sent=min(max(count, ended), begun)))
    return with_sent


def sent_shares(history: History, iteration: int) -> NDArray[np.float64] | None:
    """Return the shares of an iteration's bytes that went over each state's circuits, float64[states]; None where it
    is not known of each state what had been sent before."""
    sent = [state.sent for state in history[1:]]
    if not sent or None in sent:
        return None
    bounds = np.clip(np.array([-inf, *sent, inf], float) - iteration, 0.0, 1.0)
    shares: NDArray[np.float64] = np.diff(bounds)
    return shares


def mixed_cost(costs: Sequence[Cost], shares: NDArray[np.float64]) -> MovedCost:
    """Return the mean of costs by these shares, float64[costs]."""
    mean = {name: sum(getattr(one, name) * share for one, share in zip(costs, shares, strict=True)) for name in MEAN}
    kept = {field.name: getattr(costs[0], field.name) for field in fields(Cost)}
    return MovedCost(**kept | mean, states=tuple(costs))
