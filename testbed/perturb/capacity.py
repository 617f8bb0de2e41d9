"""Capacity of each link at each moment of a trial whose links were changed on purpose, and the least time that bytes
need on such links.

The events come from the trial's record, as they really went. From the moment an event begins until it is done, nobody
knows when exactly the kernel changed a link, so the larger of both rates counts there: a lower bound must stay one. For
the same reason an event that failed, or whose end is not known, leaves the rate before it possible until a later event
has set another. An old record, which does not say what an event did to links, leaves them at the rates that they were
built with, which no event exceeds.

Circuits that move are not seen here: see :func:`testbed.perturb.circuits.reconfigured_cost`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from testbed.topologies.model import Topology

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Steps:
    """A number that changes at moments and is constant between them.

    Attributes:
        at_s: float64[n], n >= 1, the moments, ascending.
        values: float64[n + 1]: before the first moment, and from each one on.
    """

    at_s: Floats
    values: Floats

    def value(self, at_s: Floats | float) -> Floats:
        """The number at each of these moments; at a change, the new one."""
        found: Floats = self.values[np.searchsorted(self.at_s, at_s, "right")]
        return found

    def later_s(self, from_s: Floats | float, amount: float) -> Floats:
        """Seconds, counted from each of these moments, until the integral from there on has reached ``amount``, which
        is above 0; infinity where it never does. No value may be below 0, and the first must be above."""
        total = np.concatenate([[0.0], np.cumsum(self.values[1:-1] * np.diff(self.at_s))])
        piece = np.searchsorted(self.at_s, from_s, "right")
        before = np.maximum(piece - 1, 0)
        goal = total[before] + (from_s - self.at_s[before]) * self.values[piece] + amount
        piece = np.searchsorted(total, goal, "left")  # never a piece of 0 but the last
        before = np.maximum(piece - 1, 0)
        with np.errstate(divide="ignore"):
            reached_s: Floats = self.at_s[before] + (goal - total[before]) / self.values[piece]
        return reached_s - from_s


@dataclass(frozen=True, eq=False)
class Capacity:
    """The rates of all directed links over time.

    Attributes:
        built_bps: float64[2 x links], what the topology gives.
        changed: the rate over time (bit/s; 0 while a link is blocked) of the directed links that events changed.
    """

    built_bps: Floats
    changed: Mapping[int, Steps]

    @overload
    def least_s(self, link_bytes: Floats, from_s: float, goodput: float = 1.0) -> float: ...
    @overload
    def least_s(self, link_bytes: Floats, from_s: Floats, goodput: float = 1.0) -> Floats: ...
    def least_s(self, link_bytes: Floats, from_s: float | Floats, goodput: float = 1.0) -> float | Floats:
        """The least time (s) in which every link can have carried its bytes, if none of them left before ``from_s``.

        Links carry at the same time and nothing waits for anything, so no synchronisation that puts these bytes on
        these links can be faster. Infinity where a link that has bytes to carry stays blocked.

        Args:
            link_bytes: float64[2 x links], payload by directed link, such as :attr:`Cost.link_bytes` of one
                synchronisation.
            from_s: when the first byte may leave, on the clock of the events' times; or many such moments at once, as
                an array, for a bound from each of them.
            goodput: the share of a link's rate that carries payload.
        """
        bits = 8 * link_bytes / goodput
        steady = np.ones(len(bits), dtype=bool)
        steady[list(self.changed)] = False
        least = np.full(np.shape(from_s), (bits / self.built_bps)[steady].max(initial=0.0))
        for link, rate_bps in self.changed.items():
            if bits[link] > 0:
                least = np.maximum(least, rate_bps.later_s(from_s, float(bits[link])))
        return least if isinstance(from_s, np.ndarray) else float(least)


def capacity(topology: Topology, events: Sequence[Mapping[str, Any]]) -> Capacity:
    """Compute the rates of a trial's links.

    Args:
        topology: the network as it was built.
        events: of the trial's record, see :func:`testbed.control.conductor.timeline`; those that change one link are
            carried out one after the other.
    """
    rates: dict[int, list[_Change]] = defaultdict(list)
    opened: dict[int, list[_Change]] = defaultdict(list)
    for event in sorted((one for one in events if one["begun_s"] is not None), key=lambda one: float(one["begun_s"])):
        done_s = inf if event["error"] is not None or event["done_s"] is None else event["done_s"]
        links = event.get("links") or _NOTHING
        for link, rate_bps in links["rate_bps"].items():
            rates[int(link)].append(_Change(event["begun_s"], done_s, rate_bps))
        for link, blocked in links["blocked"].items():
            opened[int(link)].append(_Change(event["begun_s"], done_s, float(not blocked)))
    built_bps = np.array(topology.rates_bps)
    changed = {}
    for link in sorted({*rates, *opened}):
        found = [_steps(built_bps[link], rates.get(link, ())), _steps(1.0, opened.get(link, ()))]
        at_s = np.union1d(*(one.at_s for one in found))
        moments = np.concatenate([[-inf], at_s])
        changed[link] = Steps(at_s, found[0].value(moments) * found[1].value(moments))
    return Capacity(built_bps, changed)


_NOTHING: Mapping[str, Mapping[str, Any]] = {"rate_bps": {}, "blocked": {}}


@dataclass(frozen=True)
class _Change:
    """A value that holds from some moment between ``begun_s`` and ``done_s`` on."""

    begun_s: float
    done_s: float
    value: float


def _steps(first: float, changes: Iterable[_Change]) -> Steps:
    """Steps of the largest value that can hold at each moment; ``changes`` come in the order in which they began."""
    known = [_Change(-inf, -inf, first), *changes]
    # A value is possible until any of those after it is done.
    until_s = np.minimum.accumulate([inf, *(one.done_s for one in known[:0:-1])])[::-1]
    moments = np.unique([moment for one in known for moment in (one.begun_s, one.done_s)])
    values = np.zeros(len(moments))
    for one, end_s in zip(known, until_s, strict=True):
        holds = slice(*np.searchsorted(moments, [one.begun_s, end_s]))
        values[holds] = np.maximum(values[holds], one.value)
    finite = moments < inf
    return Steps(moments[finite][1:], values[finite])
