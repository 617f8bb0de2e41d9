"""The same scheduler and the same server on an ideal network, by discrete events: every transfer takes as long as
planned, and notes take no time. What comes out is what a trial would be if nothing but links and computing took time.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from workloads.kinds.fabric.fates import Entry
from workloads.kinds.fabric.journal import Journal, Step, Unit
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.fabric.planning.planner import Planner, Work
from workloads.kinds.fabric.processes.messages import Dropped, Gather, Give, Note, Order, Send, SendSums
from workloads.kinds.fabric.sums import Share

Pace = Callable[[int, int], float]
"""How long (s) a rank computes its update of an iteration."""


@dataclass(frozen=True)
class Update:
    """What one update took: when it was computed, when newer weights were there (s), and what it missed."""

    rank: int
    iteration: int
    ready_s: float
    end_s: float
    staleness: int


@dataclass
class Run:
    """What came out.

    Attributes:
        updates: in the order in which their weights came.
        planner, journal: as they are at the end.
    """

    planner: Planner
    journal: Journal
    updates: list[Update] = field(default_factory=list)

    @property
    def jct_s(self) -> float:
        """From the first worker's start to the last one's end."""
        return max(update.end_s for update in self.updates)


def run(plan: Fabric, work: Work, pace: Pace) -> Run:
    """Play a whole trial.

    Raises:
        RuntimeError: nothing is left to happen before its end: the scheduler has forgotten somebody.
    """
    world = _World(plan, work, pace)
    return world.play()


class _World:
    """Workers, a server, a scheduler, and what happens next."""

    def __init__(self, plan: Fabric, work: Work, pace: Pace) -> None:
        self._plan, self._pace, self._rates = plan, pace, plan.options.rates(work.learning_rate)
        self._found = Run(Planner(plan, work), Journal(plan.options.delay_bound))
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = itertools.count()
        self._version = [0] * len(plan.workers)
        self._ready_s: dict[int, float] = {}
        self._stale: dict[int, int] = {}
        self._iteration = [0] * len(plan.workers)
        self._groups: dict[int, Gather] = {}
        self._ended = 0

    def play(self) -> Run:
        for rank in range(len(self._plan.workers)):
            self._begin(rank, 0.0)
        planner = self._found.planner
        while self._ended < len(self._plan.workers):
            due_s = self._events[0][0] if self._events else math.inf
            now_s = min(due_s, planner.next_s)
            if now_s == math.inf:
                raise RuntimeError("nothing is left to happen, and workers wait")
            if due_s <= now_s:
                heapq.heappop(self._events)[2](now_s)
            for node, note in planner.tick(now_s):
                self._obey(node, note, now_s)
        return self._found

    def _at(self, due_s: float, action: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (due_s, next(self._numbers), action))

    def _begin(self, rank: int, now_s: float) -> None:
        self._at(now_s + self._pace(rank, self._iteration[rank]), partial(self._computed, rank))

    def _computed(self, rank: int, now_s: float) -> None:
        number = self._iteration[rank] * len(self._plan.workers) + rank
        self._ready_s[number] = now_s
        self._found.planner.ready(number, self._version[rank], 0.0, now_s)

    def _obey(self, node: int, note: Note, now_s: float) -> None:
        journal = self._found.journal
        if isinstance(note, Order):
            journal.expect(note.updates, note.versions)
        elif isinstance(note, Dropped):
            self._decided([journal.drop(note.update, note.version)], now_s)
        elif isinstance(note, Gather):
            self._groups[note.group] = note
        elif isinstance(note, SendSums):
            group = self._groups.pop(note.group)
            self._arrives(node, group.target, group.members, group.shares)
        elif isinstance(note, Send) and node != note.target:
            self._arrives(node, note.target, (note.update,), None)
        elif isinstance(note, Give):
            self._give(note)

    def _arrives(self, source: int, target: int, members: Sequence[int], parts: Sequence[Share] | None) -> None:
        """``parts`` is what each counts in a sum; None of an update alone."""
        planner = self._found.planner
        planned = planner.traffic.planned(source, target, members)

        def there(now_s: float) -> None:
            planner.arrived(members, source, target, now_s)
            if target == self._plan.server:
                versions = tuple(self._version[number % len(self._version)] for number in members)
                unit = Unit(tuple(members), versions, parts is not None, tuple(parts or [(1.0, 1.0)]))
                self._found.journal.arrive(unit)
            steps = list(iter(partial(self._found.journal.next, self._rates), None))
            self._decided(steps, now_s)

        self._at(planned.end_s, there)

    def _decided(self, steps: Sequence[Step], now_s: float) -> None:
        for step in steps:
            for at, (number, version) in enumerate(zip(step.unit.members, step.unit.versions, strict=True)):
                self._stale[number] = step.begin + at - version
            entries: list[Entry] = step.entries
            self._found.planner.decided(entries, self._found.journal.version, now_s)

    def _give(self, note: Give) -> None:
        version = self._found.journal.version
        goes_on = {node: goes for node, _, goes in note.recipients}
        for (first, *_), onward in note.ways:
            for source, node in [(self._plan.server, first), *((first, hop[0]) for hop in onward)]:
                transfer = self._found.planner.traffic.planned(source, node, ())
                self._at(transfer.end_s, partial(self._got, source, node, version, goes_on.get(node)))

    def _got(self, source: int, node: int, version: int, goes_on: bool | None, now_s: float) -> None:
        """Weights are there; ``goes_on`` is None for a node that only passes them on."""
        self._found.planner.arrived((), source, node, now_s)
        if goes_on is None:
            return
        rank = self._plan.workers.index(node)
        number = self._iteration[rank] * len(self._version) + rank
        update = Update(rank, self._iteration[rank], self._ready_s[number], now_s, self._stale[number])
        self._found.updates.append(update)
        self._version[rank] = version
        self._iteration[rank] += 1
        if goes_on:
            self._begin(rank, now_s)
        else:
            self._ended += 1
