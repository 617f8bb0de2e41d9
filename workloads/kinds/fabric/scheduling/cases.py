"""The cases of alg. 3, tried fast (MLfabric, section 5.2).

There are as many cases as updates, and each plans as many transfers, so this is where the scheduler's time goes. What
is left out does not change the answer, which tests hold against that of trying every case on a
:class:`~workloads.kinds.fabric.scheduling.network.Network`:

- A case needs no paths, loads and transfers as objects, only the moments at which transfers end.
- A link that only one transfer passes, such as that of a worker with one update, limits it, but nobody asks what it
  leaves.
- A case ends once something in it is later than the best total so far. With more and more updates that go straight, the
  last of these is later at some time, and then no other case is left.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from workloads.kinds.fabric.scheduling.model import Update
from workloads.kinds.fabric.scheduling.network import Leaf, Network
from workloads.kinds.fabric.scheduling.residual import TICK_S, Residual, flow, less, moment, send

Cuts = tuple[int, ...]
"""The index of the first update of each group, in the order of aggregators."""

NOWHERE = -1
"""In place of a switch."""


class _Load(NamedTuple):
    """What is sent.

    ``out`` is the only link of its source and ``switch`` the other end, where no other update leaves the source.
    ``is_host`` says that the source is an aggregator's host, too, whose sum leaves by the same link.
    """

    source: int
    bits: float
    ready_s: float
    out: int
    switch: int
    is_host: bool


@dataclass
class _Case:
    """A case while it is tried.

    Attributes:
        links: what each has left.
        last_s: when the target has all so far.
        waited_s: the sum of arrivals.
        busy_s: by aggregator, until when its host sends an update that ``links`` do not have.
    """

    links: list[Residual]
    last_s: float = 0.0
    waited_s: float = 0.0
    busy_s: dict[int, float] = field(default_factory=dict)

    def arrived(self, count: int, end_s: float) -> None:
        self.last_s = max(self.last_s, end_s)
        self.waited_s += count * self.last_s


class Cases:
    """All cases of updates of one component, for one target.

    Args:
        aggregators: each once, and not the target.
        sums: how many times the bytes of an update an aggregator sends.
    """

    def __init__(
        self, updates: Sequence[Update], target: int, aggregators: Sequence[int], sums: int, network: Network
    ) -> None:
        self._network, self._target, self._aggregators, self._sums = network, target, aggregators, sums
        self._hosts = set(aggregators)
        self._sends = Counter([*(update.worker for update in updates), *aggregators])
        self._loads = [self._load(update.worker, 8 * update.sizes_bytes[0], update.ready_s) for update in updates]
        self._first_s = min((update.ready_s for update in updates), default=0.0)
        self._remote_bits = self._remote()
        self._straight = [self._after(_Case(network.residuals()))]
        self._limit_s = sys.float_info.max

    def best(self) -> Cuts:
        """The groups of the best case; the first one begins behind those that go straight."""
        count = len(self._loads)
        cuts: Cuts = (count,)
        rank = (math.inf, math.inf, -count)
        for direct in self._order():
            tried = self._try(direct)
            if tried is None:
                continue
            case, found = tried
            ranked = (moment(case.last_s), moment(case.waited_s), -direct)
            if ranked < rank:
                rank, cuts = ranked, found
                self._limit_s = case.last_s + 2 * TICK_S
        return cuts

    def _order(self) -> Iterator[int]:
        """Each number of updates that go straight and may win; first a few that are far apart, for a low limit."""
        count = len(self._loads)
        far = [1 << power for power in range(count.bit_length())] if self._aggregators else []
        yield from (direct for direct in far if self._may_win(direct))
        for direct in range(count + 1) if self._aggregators else (count,):
            if not self._may_win(direct):
                return
            if direct not in far:
                yield direct

    def _may_win(self, direct: int) -> bool:
        """Whether those that go straight are there in time; then their state is known."""
        states = self._straight
        while len(states) <= direct and states[-1].last_s <= self._limit_s:
            case = self._after(states[-1])
            case.arrived(1, self._send(case, self._loads[len(states) - 1], self._target))
            states.append(case)
        return direct < len(states) and states[direct].last_s <= self._limit_s

    def _try(self, direct: int, is_exact: bool = False) -> tuple[_Case, Cuts] | None:
        """DetAgg of alg. 3; None if the case cannot win.

        Unless it has to be exact, an update is not taken from its host's link for an aggregator there, as most of
        them have left by the time at which the aggregator sends.
        """
        case, count, last = self._after(self._straight[direct]), len(self._loads), len(self._aggregators) - 1
        cuts = [direct]
        for number, aggregator in enumerate(self._aggregators):
            first = cuts[-1]
            if first == count:
                break
            bound_s = case.last_s + TICK_S if number < last and (direct or number) else math.inf
            if bound_s == math.inf and self._least_s(first, aggregator) > self._limit_s:
                return None
            end, ready_s = self._collect(case, first, aggregator, bound_s, is_exact)
            if ready_s > self._limit_s:
                return None
            if case.busy_s.get(aggregator, 0.0) > ready_s:
                return self._try(direct, is_exact=True)
            bits = self._sums * max([load.bits for load in self._loads[first:end]])
            case.arrived(end - first, self._send(case, self._load(aggregator, bits, ready_s), self._target))
            if case.last_s > self._limit_s:
                return None
            cuts.append(end)
        return case, tuple(cuts[:-1] or cuts)

    def _collect(self, case: _Case, first: int, aggregator: int, bound_s: float, is_exact: bool) -> tuple[int, float]:
        """A group from its first update on: the index behind its last, and when the aggregator has all of it.

        It ends before an update that would be there after the bound, or after one that is beyond the limit.
        """
        leaf = self._own(case.links, aggregator)
        links, loads, limit_s, latest_s = case.links, self._loads, self._limit_s, 0.0
        switch = leaf.switch if leaf else None
        for index in range(first, len(loads)):
            load = loads[index]
            if leaf and load.switch == switch and not (load.is_host and (is_exact or load.source == aggregator)):
                end_s = send(links[leaf.into], links[load.out], load.bits, load.ready_s)
            else:
                end_s = self._send(case, load, aggregator, bound_s if index > first else math.inf)
            if end_s > bound_s and index > first:
                return index, latest_s
            if load.is_host and not is_exact:
                case.busy_s[load.source] = end_s
            if end_s > latest_s:
                latest_s = end_s
                if end_s > limit_s:
                    break
        return len(loads), latest_s

    def _send(self, case: _Case, load: _Load, target: int, bound_s: float = math.inf) -> float:
        """When a load is there; nothing is reserved if that is after the bound."""
        if load.source == target:
            return load.ready_s
        leaf, links = self._network.leaf(target), case.links
        if leaf and load.switch == leaf.switch and not load.is_host and bound_s == math.inf:
            return send(links[leaf.into], links[load.out], load.bits, load.ready_s)
        path = self._network.path(load.source, target)
        steps, end_s = flow([links[link] for link in path], load.bits, load.ready_s)
        if steps and end_s <= bound_s:
            for link in path:
                links[link] = less(links[link], steps, end_s)
        return end_s

    def _after(self, case: _Case) -> _Case:
        """A case that goes on from another one."""
        links = case.links.copy()
        self._own(links, self._target)
        return _Case(links, case.last_s, case.waited_s)

    def _own(self, links: list[Residual], node: int) -> Leaf | None:
        """Let :func:`send` change what a node's link has left; its links, if it has one."""
        leaf = self._network.leaf(node)
        if leaf:
            times_s, rates_bps = links[leaf.into]
            links[leaf.into] = Residual(times_s.copy(), rates_bps.copy())
        return leaf

    def _load(self, source: int, bits: float, ready_s: float) -> _Load:
        leaf, is_host = self._network.leaf(source), source in self._hosts
        if leaf is None or self._sends[source] > 1 + is_host:
            return _Load(source, bits, ready_s, NOWHERE, NOWHERE, False)
        return _Load(source, bits, ready_s, leaf.out, leaf.switch, self._sends[source] > 1)

    def _remote(self) -> list[float]:
        """By index, the bits of updates from there on that no aggregator has on its own host."""
        bits = [0.0 if load.source in self._hosts else load.bits for load in reversed(self._loads)]
        return [*list(accumulate(bits))[::-1], 0.0]

    def _least_s(self, first: int, aggregator: int) -> float:
        """When an aggregator has all updates from one on, at the earliest."""
        leaf = self._network.leaf(aggregator)
        if leaf is None or not self._remote_bits[first]:
            return 0.0
        most_bps = max(self._network.residual(leaf.into).rates_bps)
        return self._first_s + self._remote_bits[first] / most_bps if most_bps else math.inf
