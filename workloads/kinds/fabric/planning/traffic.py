"""Transfers that are on their way, and the rates that they leave, as the scheduler knows them. Pure logic, no I/O.

A transfer that has begun is reserved until it is expected to end, at first as planned. One that arrives late had less
of its links than planned, and so had those that were on these links with it: they are expected as much later. One that
is not there when it was expected is thought to need a part of its time more. So delays do not add up: what is planned
next begins when the links are expected to be free, and not when they were to be.

Receivers say when the end of a transfer is near. Until then it is not expected sooner than that, so what comes next on
its links is not told to begin.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.messages import NEAR_S
from testbed.workloads.kinds.fabric.scheduling.model import Transfer
from testbed.workloads.kinds.fabric.scheduling.network import Network

LATE = 0.3
"""Time that an overdue transfer is thought to need still, as a share of its planned time."""
EXACT_S = 0.001
"""A transfer that arrives within this of when it was expected changes nothing."""
SURE_S = 0.012
"""Time before a transfer's end from which on its end is known to be near, and time after its planned start until which
that may not be known."""


class Leg(NamedTuple):
    """A way that data takes in one go: from node, to node, the updates (none for weights), and the shard."""

    source: int
    target: int
    members: tuple[int, ...]
    shard: int


@dataclass
class Moved:
    """A transfer that has begun: as it was planned, when it is expected, and when it was there; None while it is
    not. And whether its end is near, as its receiver says."""

    planned: Transfer
    expected_s: float
    arrived_s: float | None = None
    is_near: bool = False


class Traffic:
    """All transfers that have begun.

    Attributes:
        moved: all of them.
        rates_bps: of each directed link, headers included, as it was told last.
    """

    def __init__(self, plan: Fabric, goodput: float, *, hears_nears: bool = False) -> None:
        """Set up; ``hears_nears`` says that :meth:`nears` is called for each transfer."""
        self._plan, self._goodput, self._hears_nears = plan, goodput, hears_nears
        self.rates_bps = [float(rate_bps) for *_, rate_bps in plan.links for _ in range(2)]
        self.moved: list[Moved] = []
        self._running: dict[Leg, deque[Moved]] = defaultdict(deque)
        """Transfers that have not arrived; those of one leg arrive in their order."""
        self._paths = Network(plan.topology)
        self._has_lost = False

    def follow(self, before: Traffic) -> None:
        """Go on with the links as they are, and with the transfers so far, of which none is awaited any more."""
        self.rates_bps, self.moved = before.rates_bps, before.moved

    def begin(self, transfer: Transfer) -> None:
        """Begin a transfer."""
        moved = Moved(transfer, transfer.end_s)
        self._running[leg(transfer)].append(moved)
        self.moved.append(moved)

    def told(self) -> list[list[Any]]:
        """Return the transfers in the form in which a scheduler reports them."""
        return [
            [
                *(one.planned.source, one.planned.target, one.planned.size_bytes, one.planned.members),
                *(one.planned.shard, one.planned.start_s, one.planned.end_s, one.arrived_s),
            ]
            for one in self.moved
        ]

    def planned(self, source: int, target: int, members: Sequence[int], shard: int = 0) -> Transfer:
        """Return the last transfer of a leg that has begun and not arrived. Raises IndexError: there is none."""
        return self._running[Leg(source, target, tuple(members), shard)][-1].planned

    def expected_s(self, transfer: Transfer) -> float | None:
        """Return when a transfer is expected to arrive; None if it is not on its way."""
        moved = self._running.get(leg(transfer))
        return moved[-1].expected_s if moved else None

    def nears(self, leg: Leg, end_s: float) -> float:
        """Expect a transfer to end then, and return by how much that is later than it was expected so far.

        Raises:
            ValueError: nobody was to send it.
        """
        running = self._running.get(leg)
        if not running:
            self._refuse(leg)
            return 0.0
        moved, before_s = running[0], running[0].expected_s
        moved.is_near, moved.expected_s = True, max(end_s, moved.planned.start_s)
        return moved.expected_s - before_s

    def _refuse(self, leg: Leg) -> None:
        """Raise ValueError, unless it may have been given up when a process was lost, and come all the same."""
        if not self._has_lost:
            raise ValueError(f"updates {list(leg.members)} from node {leg.source} were not to go to node {leg.target}")

    def arrived(self, source: int, target: int, members: Sequence[int], now_s: float, shard: int = 0) -> bool:
        """Note that a transfer has arrived; return whether that was not expected now.

        Raises:
            ValueError: nobody was to send it.
        """
        its_leg = Leg(source, target, tuple(members), shard)
        expected = self._running.get(its_leg)
        if not expected:
            self._refuse(its_leg)
            return False
        moved = expected.popleft()
        now_s = max(now_s, moved.planned.start_s)  # clocks are not known exactly
        moved.arrived_s = now_s
        late_s = now_s - moved.expected_s
        if late_s > EXACT_S:
            for other in self._beside(moved):
                other.expected_s += late_s
        return abs(late_s) > EXACT_S

    def forget(self, lost: Callable[[Transfer], bool]) -> None:
        """Stop waiting for transfers of which ``lost`` is true, because of the loss of a process."""
        self._has_lost = True
        for one, running in list(self._running.items()):
            kept = deque(moved for moved in running if not lost(moved.planned))
            if kept:
                self._running[one] = kept
            else:
                del self._running[one]

    def is_on_its_way(self, source: int, target: int, members: tuple[int, ...]) -> bool:
        """Whether a transfer has begun and not arrived."""
        return any(moved and one[:3] == (source, target, members) for one, moved in self._running.items())

    @property
    def _on_their_way(self) -> Iterator[Moved]:
        return chain.from_iterable(self._running.values())

    def _beside(self, moved: Moved) -> Iterator[Moved]:
        """Yield the transfers on their way that have begun and share a link with this one."""
        links = set(self._paths.path(moved.planned.source, moved.planned.target))
        for other in self._on_their_way:
            path = self._paths.path(other.planned.source, other.planned.target)
            if other.planned.start_s < (moved.arrived_s or math.inf) and not links.isdisjoint(path):
                yield other

    def is_late(self, now_s: float) -> bool:
        """Whether a transfer is overdue."""
        return any(
            now_s > one.expected_s + LATE * _takes_s(one.planned) or self._is_behind(one, now_s)
            for one in self._on_their_way
        )

    def _is_behind(self, one: Moved, now_s: float) -> bool:
        """Whether a transfer ought to be near its end, and is not."""
        due_s = max(one.expected_s - SURE_S, one.planned.start_s + SURE_S)
        return self._hears_nears and not one.is_near and now_s > due_s

    def network(self, now_s: float) -> Network:
        """Return the network that is left for transfers that begin now."""
        rates = {link: [(0.0, rate_bps * self._goodput)] for link, rate_bps in enumerate(self.rates_bps)}
        network = Network(self._plan.topology, rates)
        for moved in self._on_their_way:
            one = moved.planned
            if self._is_behind(moved, now_s):
                moved.expected_s = now_s + NEAR_S
            elif moved.expected_s <= now_s:
                moved.expected_s = now_s + LATE * _takes_s(one)
            if moved.expected_s != one.end_s and one.rates:
                one = replace(one, rates=_until(one.rates, now_s), end_s=moved.expected_s)
            if one.rates:
                network.take(one)
        return network


def leg(transfer: Transfer) -> Leg:
    return Leg(transfer.source, transfer.target, transfer.members, transfer.shard)


def fastest_bps(transfer: Transfer) -> float:
    """Return the highest rate that is reserved for a transfer."""
    return max((rate for _, rate in transfer.rates), default=0.0)


def _takes_s(transfer: Transfer) -> float:
    return transfer.end_s - transfer.start_s


def _until(rates: Sequence[tuple[float, float]], now_s: float) -> tuple[tuple[float, float], ...]:
    """Return the rates of a transfer that goes on for longer than planned: at most its highest planned rate, from now
    on."""
    most = max(rate for _, rate in rates)
    return ((max(now_s, rates[0][0]), most),)


class Commits:
    """The point to which several servers, with a shard of the weights each, may go in the order of updates.

    A worker gets one version of all shards (MLfabric, section 10.2), so servers must agree on what each version is. The
    scheduler decides it for all of them: it tells them in one order what may be applied, what is dropped, and who gets
    weights. Each server applies its shard of an update when the scheduler knows that all shards are there. So whatever
    a server is told finds each of them in the same state, and their journals are equal.

    Attributes:
        count: so many updates, from the first one on.
    """

    def __init__(self, servers: int) -> None:
        self._servers = servers
        self._there: Counter[int] = Counter()
        self.count = 0

    def arrived(self, members: Sequence[int], order: Sequence[int]) -> bool:
        """Note that a shard of these updates is at its server; return whether more may be applied than before."""
        self._there.update(members)
        before = self.count
        while self.count < len(order) and self._there[order[self.count]] == self._servers:
            self.count += 1
        return self.count > before
