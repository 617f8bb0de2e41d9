"""The cases of alg. 3, tried fast (MLfabric, section 5.2).

There are as many cases as updates, and each plans as many transfers, so this is where the scheduler's time goes. What
is left out does not change the answer, which tests hold against that of trying every case on a
:class:`~testbed.workloads.kinds.fabric.scheduling.network.Network`:

- A case needs no paths, loads and transfers as objects, only the moments at which transfers end.
- A link that never limits a transfer is left out (:class:`Limits`).
- A link that only one update passes, such as that of a worker with one update, limits it, but nobody asks what it
  leaves.
- A case ends once something in it is later than the best total so far, or surely will be. With more and more
  updates that go straight, the last of these is later at some time, and then no other case is left.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

from testbed.workloads.kinds.fabric.scheduling.model import Update
from testbed.workloads.kinds.fabric.scheduling.network import Network
from testbed.workloads.kinds.fabric.scheduling.residual import TICK_S, Residual, covers, flow, less, moment, send

NO_LINK = -1
"""Stands for the place before the first link of a path, and behind its last."""


class Funnel(NamedTuple):
    """The place where transfers to a node meet: the only link that limits those from these sources, besides their own
    link."""

    link: int
    sources: frozenset[int]


class Limits:
    """The links that limit transfers from some nodes to others, in a state of a network and whatever these reserve in
    it.

    Most paths have links that never do: the uplink of a rack carries all that its hosts can send. Such a link always
    has at least as much left as the links before it together, or as the links behind it together. What transfers take
    of it they take of one of these, too. So that stays true, whatever is reserved, and who looks for the moment at
    which a transfer ends can leave the link out.

    Raises:
        SchemeError: two of the nodes have several paths.
    """

    def __init__(self, network: Network, sources: Iterable[int], targets: Iterable[int]) -> None:
        self._network = network
        self._ways: dict[tuple[int, int], tuple[int, ...]] = {}
        self._sources, targets = frozenset(sources), set(targets)
        leaves = [network.leaf(node) for node in self._sources | targets]
        self._is_star = all(leaves) and len({leaf.switch for leaf in leaves if leaf}) == 1
        self._needless = set[int]() if self._is_star else _needless(network, self._sources, targets)

    def of(self, source: int, target: int) -> tuple[int, ...]:
        """Return the links of the path that may limit a transfer; none from a node to itself."""
        known = self._ways.get((source, target))
        if known is None:
            path = self._network.path(source, target)
            known = self._ways[source, target] = tuple(link for link in path if link not in self._needless)
        return known

    def funnel(self, target: int) -> Funnel | None:
        """Return the funnel of most sources; None if there is none."""
        leaf = self._network.leaf(target)
        if self._is_star and leaf:
            return Funnel(leaf.into, self._sources)
        meeting: dict[int, set[int]] = defaultdict(set)
        for source in self._sources:
            own, way = self._network.leaf(source), self.of(source, target)
            if own and own.out in way and len(way) == 2:
                meeting[way[0] if way[1] == own.out else way[1]].add(source)
        link = max(meeting, key=lambda link: len(meeting[link]), default=None)
        return None if link is None else Funnel(link, frozenset(meeting[link]))


def _needless(network: Network, sources: Collection[int], targets: Collection[int]) -> set[int]:
    """Find the links that limit nothing. Links that leave a source are not considered."""
    before, after = defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
    for path in [network.path(source, target) for source in sources for target in targets if source != target]:
        for link, following in pairwise((NO_LINK, *path, NO_LINK)):
            after[link].add(following)
            before[following].add(link)
    leaves = {leaf.out for leaf in map(network.leaf, sources) if leaf}
    found = {NO_LINK}
    for link in sorted(after.keys() - leaves - found, key=lambda link: NO_LINK in after[link]):
        for others in (before[link], after[link]):
            if found.isdisjoint(others) and covers(network.residual(link), [network.residual(one) for one in others]):
                found.add(link)
                break
    return found


Cuts = tuple[int, ...]
"""The index of the first update of each group, in the order of aggregators."""


class _Load(NamedTuple):
    """Data that is sent, by shard: bits, and when they can leave.

    ``out`` is the only link of its source; -1 if another update leaves the source, too, or if it has more links.
    ``is_host`` says that the source is an aggregator's host, whose update and sum leave by the same link. A sum that
    leaves after its host's update is as one from another source: nobody asks what it leaves of that link.
    """

    source: int
    bits: Sequence[float]
    ready_s: Sequence[float]
    out: int
    is_host: bool


@dataclass
class _Case:
    """A case while it is tried.

    Attributes:
        links: what each has left.
        last_s: when the targets have all so far.
        waited_s: the sum of arrivals.
        busy_s: by aggregator, until when its host sends an update that ``links`` do not have.
    """

    links: list[Residual]
    last_s: float = 0.0
    waited_s: float = 0.0
    busy_s: dict[int, float] = field(default_factory=dict)

    def arrived(self, count: int, ends_s: Sequence[float]) -> None:
        self.last_s = max(self.last_s, *ends_s)
        self.waited_s += count * self.last_s


class Cases:
    """All cases of updates.

    Args:
        targets: where the components of updates go.
        aggregators: each once, and none of them is a target.
        sums: how many times the bytes of an update an aggregator sends.
    """

    def __init__(
        self, updates: Sequence[Update], targets: Sequence[int], aggregators: Sequence[int], sums: int, network: Network
    ) -> None:
        self._targets, self._aggregators, self._sums = targets, aggregators, sums
        self._hosts = set(aggregators)
        self._own_at = {update.worker: index for index, update in enumerate(updates) if update.worker in self._hosts}
        self._sends = Counter([*(update.worker for update in updates), *aggregators])
        self._network, self._limits = network, Limits(network, self._sends, {*targets, *aggregators})
        self._funnels = {node: self._limits.funnel(node) for node in {*targets, *aggregators}}
        self._loads = [
            self._load(update.worker, [8 * size for size in update.sizes_bytes], [update.ready_s] * len(targets))
            for update in updates
        ]
        self._bits = list(zip(*(load.bits for load in self._loads), strict=True))
        self._straight = [self._after(_Case(network.residuals()))]
        self._limit_s = sys.float_info.max
        self._first_s = min((update.ready_s for update in updates), default=0.0)
        remote = [0.0 if load.source in self._hosts else sum(load.bits) for load in reversed(self._loads)]
        self._remote_bits = [*list(accumulate(remote))[::-1], 0.0]
        """By index, the bits of updates from there on that no aggregator has on its own host."""
        leaves = [network.leaf(node) for node in aggregators]
        self._rates_bps = [max(network.residual(leaf.into).rates_bps) if leaf else math.inf for leaf in leaves]
        self._left_bps = list(accumulate(reversed(self._rates_bps)))[::-1]

    def best(self) -> Cuts:
        """Return the groups of the best case; the first one begins behind the updates that go straight."""
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

    def with_straight(self, direct: int) -> Cuts:
        """Return the groups of the case in which so many updates go straight, whether it is the best or not. To be
        called before :meth:`best`, which leaves cases out.

        Raises:
            ValueError: in that case, something is never there.
        """
        tried = self._try(direct) if self._may_win(direct) else None
        if tried is None:
            raise ValueError(f"with {direct} updates that go straight, something is never there")
        return tried[1]

    def _order(self) -> Iterator[int]:
        """Yield each number of updates that go straight and may win; first a few that are far apart, for a low
        limit."""
        count = len(self._loads)
        far = [1 << power for power in range(count.bit_length())] if self._aggregators else []
        yield from (direct for direct in far if self._may_win(direct))
        for direct in range(count + 1) if self._aggregators else (count,):
            if not self._may_win(direct):
                return
            if direct not in far:
                yield direct

    def _may_win(self, direct: int) -> bool:
        """Whether the updates that go straight are there in time; then their state is known."""
        states = self._straight
        while len(states) <= direct and states[-1].last_s <= self._limit_s:
            case = self._after(states[-1])
            case.arrived(1, self._send_on(case, self._loads[len(states) - 1]))
            states.append(case)
        return direct < len(states) and states[direct].last_s <= self._limit_s

    def _try(self, direct: int, is_exact: bool = False) -> tuple[_Case, Cuts] | None:
        """Try a case (DetAgg of alg. 3); None if it cannot win.

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
            if self._least_s(first, number, bound_s == math.inf) > self._limit_s:
                return None
            end, ready_s = self._collect(case, first, aggregator, bound_s, is_exact)
            if max(ready_s) > self._limit_s:
                return None
            if case.busy_s.get(aggregator, 0.0) > ready_s[0]:
                return self._try(direct, is_exact=True)
            case.arrived(end - first, self._send_on(case, self._sum(aggregator, first, end, ready_s)))
            if case.last_s > self._limit_s:
                return None
            cuts.append(end)
        return case, tuple(cuts[:-1] or cuts)

    def _collect(
        self, case: _Case, first: int, aggregator: int, bound_s: float, is_exact: bool
    ) -> tuple[int, Sequence[float]]:
        """Collect a group from its first update on; return the index behind its last, and when the aggregator has all
        of it, by shard.

        It ends before an update that would be there after the bound, or after one that is beyond the limit.
        """
        links, loads, limit_s, to = case.links, self._loads, self._limit_s, [aggregator] * len(self._targets)
        funnel = self._funnels[aggregator]
        leaf = self._network.leaf(aggregator)  # its own link, which no other traffic passes
        near = funnel.sources if funnel and leaf and leaf.into == funnel.link else frozenset[int]()
        into = self._own(links, funnel)
        latest_s: Sequence[float] = [0.0] * len(to)
        for index in range(first, len(loads)):
            load = loads[index]
            if load.out >= 0 and load.source in near and not (load.is_host and (is_exact or load.source == aggregator)):
                ends_s = _sent(links[into], links[load.out], load)
            else:
                ends_s = self._send(case, load, to, bound_s if index > first else math.inf)
            end_s = max(ends_s) if len(to) > 1 else ends_s[0]
            if end_s > bound_s and index > first:
                return index, latest_s
            if load.is_host and not is_exact:
                case.busy_s[load.source] = end_s
            if len(to) > 1:
                latest_s = list(map(max, latest_s, ends_s))
            elif end_s > latest_s[0]:
                latest_s = ends_s
            if end_s > limit_s:
                break
        return len(loads), latest_s

    def _send_on(self, case: _Case, load: _Load) -> list[float]:
        target, *others = self._targets
        funnel = self._funnels[target]
        is_alone = load.out >= 0 and load.source != target and not load.is_host
        if funnel and not others and is_alone and load.source in funnel.sources:
            return _sent(case.links[funnel.link], case.links[load.out], load)
        return self._send(case, load, self._targets)

    def _send(self, case: _Case, load: _Load, targets: Sequence[int], bound_s: float = math.inf) -> list[float]:
        """Send a load, and return when its shards are there; nothing is reserved if one of them is after the bound."""
        links, taken, ends_s = case.links, dict[int, Residual](), []
        for target, bits, ready_s in zip(targets, load.bits, load.ready_s, strict=True):
            path = self._limits.of(load.source, target)
            steps, end_s = (
                flow([taken.get(link, links[link]) for link in path], bits, ready_s) if path else ((), ready_s)
            )
            for link in path if steps else ():
                taken[link] = less(taken.get(link, links[link]), steps, end_s)
            ends_s.append(end_s)
        if max(ends_s) <= bound_s:
            for link, residual in taken.items():
                links[link] = residual
        return ends_s

    def _after(self, case: _Case) -> _Case:
        links = case.links.copy()
        for target in self._targets:
            self._own(links, self._funnels[target])
        return _Case(links, case.last_s, case.waited_s)

    def _own(self, links: list[Residual], funnel: Funnel | None) -> int:
        """Let :func:`send` change what a funnel has left, and return the funnel's link; -1 if there is none."""
        if funnel is None:
            return -1
        times_s, rates_bps = links[funnel.link]
        links[funnel.link] = Residual(times_s.copy(), rates_bps.copy())
        return funnel.link

    def _load(self, source: int, bits: Sequence[float], ready_s: Sequence[float]) -> _Load:
        leaf, is_host = self._network.leaf(source), source in self._hosts
        if leaf is None or self._sends[source] > 1 + is_host:
            return _Load(source, bits, ready_s, -1, False)
        return _Load(source, bits, ready_s, leaf.out, self._sends[source] > 1)

    def _sum(self, aggregator: int, first: int, end: int, ready_s: Sequence[float]) -> _Load:
        bits = [self._sums * max(of[first:end]) for of in self._bits]
        load = self._load(aggregator, bits, ready_s)
        return load._replace(is_host=False) if self._own_at.get(aggregator, -1) < end else load

    def _least_s(self, first: int, number: int, takes_all: bool) -> float:
        """Return the earliest moment at which an aggregator, or all aggregators from it on, can have all updates from
        the ``first`` on."""
        rate_bps = self._rates_bps[number] if takes_all else self._left_bps[number]
        left = self._remote_bits[first]
        if not left:
            return 0.0
        return self._first_s + left / rate_bps if rate_bps else math.inf


def _sent(residual: Residual, before: Residual, load: _Load) -> list[float]:
    """Return when the shards of a load are there, over its source's link and another one. Each leaves after the one
    before."""
    ends_s = [send(residual, before, load.bits[0], load.ready_s[0])]
    for bits in load.bits[1:]:
        ends_s.append(send(residual, before, bits, ends_s[-1]))
    return ends_s
