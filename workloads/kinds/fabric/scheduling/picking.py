"""Choice of the next update (MLfabric, alg. 2, ShrtDLine): of those that are due, or else of all, the one that ends
first.

To ask each of them at each position makes the time grow with the square of their number. :class:`_Bounds` asks few.
What is reserved never makes a transfer end earlier, so an update ends no earlier than it once would have, and no
earlier than the server's link alone allows. NumPy has both bounds of all updates in a few operations, and only those
whose bound comes first are asked. Nor is one that is no smaller and no faster than another one that waits.

That pays from some updates on; :class:`_Every` asks all. Both have the same answer, up to sizes that differ by some
bytes. With several components only the bounds that the links allow hold: one component that is slowed down leaves its
worker's link to another, so an update may end earlier than it once would have.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.kinds.fabric.scheduling.model import Update
from testbed.workloads.kinds.fabric.scheduling.network import Network, Outlet, loads
from testbed.workloads.kinds.fabric.scheduling.residual import TICK_S, TICKS, Residual, moment, when

MANY, MANY_PARTS = 50, 10
"""Number of updates, of one component or of several, from which on bounds of all are faster than asking each."""

FEW = 20
"""Number of updates up to which it is faster to ask each than to look at the server's link for all."""

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Found:
    """The index of the update that goes next, when it ends, and whether it goes now because it is due."""

    index: int
    end_s: float
    is_due: bool


def picker(
    updates: Sequence[Update], deadlines: Sequence[float], servers: Sequence[int], network: Network
) -> _Every | _Bounds:
    """Make a picker for updates that are in the order of their ranks, from a state of the network on."""
    ends = _Ends(updates, servers, network)
    if len(updates) < (MANY if len(servers) == 1 else MANY_PARTS) or network.may_stall():
        return _Every(ends, deadlines)
    return _Bounds(ends, deadlines) if len(servers) == 1 else _PartBounds(ends, deadlines, network)


class _Ends:
    """The moments at which updates end.

    Attributes:
        updates: in the order of their ranks.
        servers: where their components go.
        into: the directed link that all components for the first server pass last; None if it has several.
        outlets: of each update whose way there is limited by a constant rate and that link alone.
    """

    def __init__(self, updates: Sequence[Update], servers: Sequence[int], network: Network) -> None:
        self.updates, self.servers = updates, servers
        leaf = network.leaf(servers[0])
        self.into = leaf.into if leaf else None
        sends = Counter(update.worker for update in updates)
        self.outlets: list[Outlet | None] = [None] * len(updates)
        for index, update in enumerate(updates):
            if leaf and len(servers) == 1 and sends[update.worker] == 1 and update.worker != servers[0]:
                outlet = network.outlet(update.worker, update.ready_s)
                self.outlets[index] = outlet if outlet and outlet.switch == leaf.switch else None

    def end_s(self, index: int, network: Network) -> float:
        outlet, update = self.outlets[index], self.updates[index]
        if outlet and self.into is not None:
            return when(network.residual(self.into), outlet.most_bps, 8 * update.sizes_bytes[0], outlet.from_s)
        return network.last_s(loads(update, self.servers))


class _Every:
    """A picker from updates in the order of their ranks, which asks each of them when it ends."""

    def __init__(self, ends: _Ends, deadlines: Sequence[float]) -> None:
        self._ends, self._deadlines = ends, deadlines
        self._left = dict.fromkeys(range(len(deadlines)))

    def next(self, position: int, network: Network) -> Found | None:
        """Return the update for a position, from 1; None if none is left that is in time and has a way to the
        servers."""
        left = [index for index in self._left if self._deadlines[index] >= position]
        ends = {index: self._ends.end_s(index, network) for index in left}
        left = [index for index in left if ends[index] < math.inf]
        if not left:
            return None
        due = self._due(left, position)
        index = min(due or left, key=lambda one: moment(ends[one]))
        return Found(index, ends[index], bool(due))

    def take(self, index: int) -> None:
        """Exclude this update from now on."""
        del self._left[index]

    def known(self) -> None:
        """Return the memory of the network's state, for :meth:`back`."""
        return

    def back(self, known: Any) -> None:
        """Go back to an earlier state of the network; updates that were taken since stay taken."""

    def _due(self, left: Sequence[int], position: int) -> list[int]:
        """Return the fewest updates that need as many of the next positions as there are of them; empty if none do."""
        deadlines = sorted([self._deadlines[index] for index in left])
        last = next((at for at, latest in enumerate(deadlines, position) if latest <= at), 0)
        return [index for index in left if self._deadlines[index] <= last]


class _Bounds:
    """A picker that asks only the updates that may end first."""

    def __init__(self, ends: _Ends, deadlines: Sequence[float]) -> None:
        self._ends = ends
        self._deadlines = np.array(deadlines)
        self._is_left = np.ones(len(deadlines), dtype=bool)
        updates, outlets = ends.updates, ends.outlets
        sizes = [0.0 if one.worker == ends.servers[0] else 8 * one.sizes_bytes[0] for one in updates]
        self._bits = np.array(sizes)
        self._from_s = np.array(
            [one.from_s if one else update.ready_s for one, update in zip(outlets, updates, strict=True)]
        )
        self._most_bps = np.array([one.most_bps if one else math.inf for one in outlets])
        self._has_outlet = np.array([one is not None for one in outlets])
        self._by_size = np.argsort(self._bits, kind="stable")
        self._least = np.rint((self._from_s + self._bits / self._most_bps) * TICKS)  # by update, in ticks

    def next(self, position: int, network: Network) -> Found | None:
        is_left = self._is_left & (self._deadlines >= position)
        last = self._last_due(self._deadlines[is_left], position)
        if last:
            is_left &= self._deadlines <= last
        at = self._candidates(is_left, network)
        if not len(at):
            return None
        bounds = self._bounds(at, network)
        ends: dict[int, float] = {}
        while True:
            first = int(bounds.argmin())
            if first in ends:
                return Found(int(at[first]), ends[first], last > 0)
            ends[first] = self._ends.end_s(int(at[first]), network)
            bounds[first] = moment(ends[first])
            self._learn(int(at[first]), bounds[first])

    def _candidates(self, is_left: Bools, network: Network) -> Indices:
        """Leave out the updates that surely end after another one: no smaller, and no faster on the way to the server's
        link.

        That is sure where nothing but this rate and the server's link limits either, and both can leave before the link
        has anything left.
        """
        if self._ends.into is None:
            return np.flatnonzero(is_left)
        times_s, rates_bps = network.residual(self._ends.into)
        is_equal = self._has_outlet & (self._from_s <= (times_s[0] if rates_bps[0] else times_s[1]))
        others = np.flatnonzero(is_left & ~is_equal)
        alike = self._by_size[(is_left & is_equal)[self._by_size]]
        if not len(alike):
            return others
        most_bps = self._most_bps[alike]
        fastest = np.maximum.accumulate(most_bps)
        is_faster = np.ones(len(alike), dtype=bool)
        is_faster[1:] = most_bps[1:] > fastest[:-1]
        return np.sort(np.concatenate([others, alike[is_faster]]))

    def take(self, index: int) -> None:
        self._is_left[index] = False

    def known(self) -> Floats:
        known: Floats = self._least.copy()
        return known

    def back(self, known: Floats) -> None:
        self._least = known

    def _last_due(self, deadlines: Floats, position: int) -> int:
        """Return the last of the next positions that updates with these deadlines need all of; 0 if they do not."""
        ahead = deadlines[deadlines < position + len(deadlines)] - position
        if not len(ahead):
            return 0
        counts = np.cumsum(np.bincount(ahead.astype(np.int64)))
        is_due = counts > np.arange(len(counts))
        first = int(is_due.argmax())
        return position + first if is_due[first] else 0

    def _bounds(self, at: Indices, network: Network) -> Floats:
        """Return the moments, in ticks, before which updates do not end."""
        bounds: Floats = self._least[at]
        if len(at) > FEW and self._ends.into is not None:
            link = network.residual(self._ends.into)
            bounds = np.maximum(bounds, _alone(link, self._from_s[at], self._bits[at]))
        return bounds

    def _learn(self, index: int, bound: float) -> None:
        """Note that an update would end now at ``bound``, and never earlier."""
        self._least[index] = bound


class _PartBounds(_Bounds):
    """A picker as :class:`_Bounds` for updates of several components, from a state of the network on."""

    def __init__(self, ends: _Ends, deadlines: Sequence[float], network: Network) -> None:
        super().__init__(ends, deadlines)
        leaves = [network.leaf(server) for server in ends.servers]
        self._into = [leaf.into if leaf else None for leaf in leaves]
        sent = [[0.0 if one.worker == server else 8.0 for server in ends.servers] for one in ends.updates]
        self._parts = np.array(sent) * np.array([one.sizes_bytes for one in ends.updates])
        outs = [network.leaf(one.worker) for one in ends.updates]
        most_bps = [max(network.residual(leaf.out).rates_bps) if leaf else math.inf for leaf in outs]
        self._takes_s = self._parts.sum(axis=1) / np.array(most_bps)

    def _candidates(self, is_left: Bools, network: Network) -> Indices:
        return np.flatnonzero(is_left)

    def _bounds(self, at: Indices, network: Network) -> Floats:
        """Return when updates cannot have ended before, in ticks: a worker's components leave by one link, and none
        before some server's link has something left. Each comes by its server's link."""
        links = [None if link is None else network.residual(link) for link in self._into]
        free_s = min(0.0 if one is None or one.rates_bps[0] else one.times_s[1] for one in links)
        bounds: Floats = np.rint((np.maximum(self._from_s[at], free_s) + self._takes_s[at]) * TICKS)
        for shard, link in enumerate(links):
            if link:
                bounds = np.maximum(bounds, _alone(link, self._from_s[at], self._parts[at, shard]))
        return bounds - (1 + len(links))  # a component may end up to a tick earlier than its bits take

    def _learn(self, index: int, bound: float) -> None:
        pass


def _alone(residual: Residual, from_s: Floats, bits: Floats) -> Floats:
    """Return when transfers would end, in ticks, if only one link limited them, each alone.

    One that would end up to two ticks after a change of rates ends at the change, as :func:`when` has it.
    """
    times_s, rates_bps, carried = _carried(residual, float(from_s.min()))
    begun = times_s.searchsorted(from_s, "right") - 1
    bits = carried[begun] + rates_bps[begun] * (from_s - times_s[begun]) + bits
    end = np.maximum(carried.searchsorted(bits - 2 * TICK_S * rates_bps.max()) - 1, 0)
    more = np.minimum(bits, carried[end + 1]) - carried[end]
    ends: Floats = np.rint((times_s[end] + more / np.maximum(rates_bps[end], 1.0)) * TICKS)
    return ends


def _carried(residual: Residual, from_s: float) -> tuple[Floats, Floats, Floats]:
    """Return a link's steps from a moment on: when they begin, their rates, and the bits carried before each and in
    all."""
    first = bisect_right(residual.times_s, from_s) - 1
    times_s = np.array(residual.times_s[first:])
    times_s[0] = from_s
    rates_bps = np.array(residual.rates_bps[first:])
    carried = np.empty(len(times_s))
    carried[0], carried[-1] = 0.0, math.inf
    np.cumsum(rates_bps[:-1] * np.diff(times_s[:-1]), out=carried[1:-1])
    return times_s[:-1], rates_bps, carried
