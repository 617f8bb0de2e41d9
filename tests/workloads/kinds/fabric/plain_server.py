"""An asynchronous parameter server on an ideal network, by discrete events and by the rules of ``async_ps``: the oracle
of a scheduler that neither sums, drops nor waits. All links have one rate, so only the server's two directions hold
transfers up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

from testbed.workloads.kinds.asynchronous.ledger import Ledger
from testbed.workloads.kinds.fabric.ideal import Pace

Number: TypeAlias = tuple[int, int]
"""A rank and its iteration."""
CLOSE_S = 1e-9


@dataclass
class Link:
    """One direction of the server's link.

    Attributes:
        left_s: by rank, how long its transfer would still take alone.
    """

    is_shared: bool
    left_s: dict[int, float] = field(default_factory=dict)

    def going(self) -> list[int]:
        """The ranks whose transfers it carries now: all of them at once, or the first that came."""
        return list(self.left_s)[: None if self.is_shared else 1]

    def ends_s(self, now_s: float) -> float:
        """When the next transfer ends."""
        going = self.going()
        return now_s + len(going) * min(self.left_s[rank] for rank in going) if going else math.inf

    def carry(self, for_s: float) -> list[int]:
        """The ranks whose transfers end then."""
        going = self.going()
        for rank in going:
            self.left_s[rank] -= for_s / len(going)
        ended = [rank for rank in going if self.left_s[rank] <= CLOSE_S]
        for rank in ended:
            del self.left_s[rank]
        return ended


@dataclass(frozen=True)
class Played:
    """What came out.

    Attributes:
        order, versions: the updates as they were applied, and what each was computed on.
        there_s: when a worker had newer weights after an update.
    """

    order: list[Number]
    versions: list[int]
    there_s: dict[Number, float]

    @property
    def jct_s(self) -> float:
        return max(self.there_s.values())


def played(pace: Pace, world: int, updates: int, alone_s: float, *, are_shared: bool) -> Played:
    """A whole trial; ``alone_s`` is how long an update takes on a link of its own, as weights do."""
    ledger = Ledger(world, updates, None)
    inwards, outwards = Link(are_shared), Link(are_shared)
    ready_s = {rank: pace(rank, 0) for rank in range(world)}
    iteration, goes_on, there_s = [0] * world, [True] * world, dict[Number, float]()
    now_s = 0.0
    while ready_s or inwards.left_s or outwards.left_s:
        before_s, now_s = now_s, min([*ready_s.values(), inwards.ends_s(now_s), outwards.ends_s(now_s)])
        got, came = outwards.carry(now_s - before_s), inwards.carry(now_s - before_s)
        for rank in got:
            there_s[rank, iteration[rank]] = now_s
            iteration[rank] += 1
            if goes_on[rank]:
                ready_s[rank] = now_s + pace(rank, iteration[rank])
        for rank in came:
            ledger.apply(rank, ledger.given[rank], goes_on[rank])
            outwards.left_s |= dict.fromkeys(ledger.release(), alone_s)
        for rank in [rank for rank, due_s in ready_s.items() if due_s <= now_s + CLOSE_S]:
            del ready_s[rank]
            goes_on[rank] = ledger.take()
            inwards.left_s[rank] = alone_s
    order = [(one.rank, one.iteration) for one in ledger.order]
    return Played(order, [one.version for one in ledger.order], there_s)
