"""Model of a trial on an ideal network, by discrete events, with the same scheduler and the same server: every transfer
takes as long as planned, or, while the scheduler has not heard of a change, as its links allow; and notes take no time.
The result is what a trial would be if nothing but links and computing took time."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

import numpy as np

from testbed.workloads.kinds.asked import Change, Demand
from testbed.workloads.kinds.fabric.fates import Entry
from testbed.workloads.kinds.fabric.journal import Copy, Journal, Step, Unit
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.planning.planner import Planner
from testbed.workloads.kinds.fabric.planning.traffic import Leg
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.played_rates import RealRates, later
from testbed.workloads.kinds.fabric.processes.messages import (
    Commit,
    Dropped,
    Gather,
    Give,
    Note,
    Order,
    Pass,
    Send,
    SendSums,
    Weights,
    recipients_of,
)
from testbed.workloads.kinds.fabric.processes.passing import NO_FLOATS, Passing
from testbed.workloads.kinds.fabric.scheduling.network import Network
from testbed.workloads.kinds.fabric.sums import Share
from testbed.workloads.serving.exchange import Floats

NORM = 1.0
"""Norm of each update where no norms are told: how far an update changes the weights is not known without computing
it."""
Pace = Callable[[int, int], float]
"""How long (s) a rank computes its update of an iteration."""
MOST_UPDATES = 4_000
"""Limit on the updates of a trial that is played for its numbers afterwards: 8 s of a core for 30 workers whose rates
change."""


@dataclass(frozen=True)
class Update:
    """The times of one update: when it was computed, when newer weights were there (s), how many updates it missed, and
    for how long these weights were held back."""

    rank: int
    iteration: int
    ready_s: float
    end_s: float
    staleness: int
    held_s: float = 0.0


@dataclass
class Run:
    """Result of a played trial.

    Attributes:
        updates: in the order in which their weights came.
        planner, journals: as they are at the end; each server has a journal, and all roots together have one.
        copy: the journal of the replica; it stays empty where there is none.
    """

    planner: Planner
    journals: dict[int, Journal]
    copy: Copy = field(default_factory=Copy)
    updates: list[Update] = field(default_factory=list)

    @property
    def journal(self) -> Journal:
        """The first server's journal."""
        return next(iter(self.journals.values()))

    @property
    def jct_s(self) -> float:
        """Time from the first worker's start to the last one's end."""
        return max(update.end_s for update in self.updates)


LIKELY_UPDATES = 120
"""Limit on the updates of a trial that is played to guess its time: 0.15 s of a core."""


def likely_jct_s(plan: Fabric, demand: Demand, *, makes_sums: bool) -> float:
    """Estimate how long a trial takes (s): its first iterations are played, and the others are taken to be like
    them."""
    world = len(plan.workers)
    count = min(demand.iterations, max(1, LIKELY_UPDATES // world))
    part = replace(demand, iterations=count, warmup=0, norms=demand.norms or {(0, 0): NORM})
    found = predicted(plan, part, makes_sums=makes_sums)
    return demand.iterations / count * found["jct_predicted_s"]


def predicted(plan: Fabric, demand: Demand, *, makes_sums: bool) -> Mapping[str, float]:
    """Predict JCT and the median GST of a whole trial; empty if it has more than ``MOST_UPDATES``, or if a replica's
    distance is bounded and no norms are told. An update that was not sent has the mean of the other norms."""
    world, momentum = len(plan.workers), 0.0 if makes_sums else demand.momentum
    updates = demand.iterations * world
    if updates > MOST_UPDATES or (plan.options.divergence_bound is not None and not demand.norms):
        return {}
    norms = {iteration * world + rank: norm for (rank, iteration), norm in demand.norms.items()}
    work = Work(demand.gradient_bytes, updates, momentum, demand.seed, demand.goodput, demand.learning_rate)
    played = run(
        plan,
        work,
        lambda rank, i: float(demand.pace_s[rank, i % demand.iterations]),
        makes_sums=makes_sums,
        changes=demand.changes,
        norms=norms,
    )
    counted = sorted((one for one in played.updates if one.iteration >= demand.warmup), key=lambda one: one.iteration)
    gst_s = [one.end_s - one.ready_s - one.held_s for one in counted]
    if makes_sums:
        rounds = (list(those) for _, those in groupby(counted, key=lambda one: one.iteration))
        gst_s = [max(one.end_s for one in those) - max(one.ready_s for one in those) for those in rounds]
    return {"jct_predicted_s": played.jct_s, "gst_predicted_s": float(np.median(gst_s))}


def run(
    plan: Fabric,
    work: Work,
    pace: Pace,
    *,
    makes_sums: bool = False,
    changes: Iterable[Change] = (),
    norms: Mapping[int, float] | None = None,
) -> Run:
    """Play a whole trial.

    Args:
        makes_sums: the server tells of an iteration's updates once it has all.
        changes: of rates, in their order. Links change at once, and the scheduler knows it as late as it hears of it.
        norms: of updates, by number; others have their mean.

    Raises:
        RuntimeError: nothing is left to happen before its end: the scheduler has forgotten somebody, or links stay
            blocked.
    """
    return _World(plan, work, pace, len(plan.workers) if makes_sums else 1, changes, norms or {}).play()


@dataclass
class _Group:
    """A sum that is still to be made: of the updates in ``here``. It leaves once all are here, and its time has
    come."""

    note: Gather
    here: set[int] = field(default_factory=set)
    may_leave: bool = False

    @property
    def leaves(self) -> bool:
        return self.may_leave and self.here.issuperset(self.note.members)


class _World:
    """The state of a played trial: workers, a server, a scheduler, and the events to come."""

    def __init__(
        self,
        plan: Fabric,
        work: Work,
        pace: Pace,
        together: int,
        changes: Iterable[Change],
        norms: Mapping[int, float],
    ) -> None:
        """Set up; the server tells of at least ``together`` updates at once."""
        self._together, self._untold = together, list[Entry]()
        self._plan, self._pace, self._rates = plan, pace, plan.options.rates(work.learning_rate)
        lead = None if plan.replica is None else plan.options.lead(work.momentum)
        allowed = math.inf if len(plan.servers) == 1 else 0
        journals = {node: Journal(plan.options.delay_bound, lead, work.momentum, allowed) for node in plan.servers}
        self._found = Run(Planner(plan, work), journals)
        self._now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._version = [0] * len(plan.workers)
        self._shards: list[list[int]] = [[] for _ in plan.workers]
        """Versions of the shards that each worker has got of the weights that come to it."""
        self._ready_s: dict[int, float] = {}
        self._stale: dict[int, int] = {}
        self._computed_on: dict[int, int] = {}
        self._iteration = [0] * len(plan.workers)
        self._groups: dict[int, _Group] = {}
        self._passing = {node: Passing(partial(self._give_on, node)) for node in plan.workers}
        self._ended = 0
        self._network = Network(plan.topology)
        at_first = [float(rate_bps) for *_, rate_bps in plan.links for _ in range(2)]
        self._real = RealRates(at_first, changes, work.goodput)
        self._is_changing = self._real.change(0) is not None
        self._norms, self._norm = norms, sum(norms.values()) / len(norms) if norms else NORM
        self._hear(0)

    def _hear(self, number: int) -> None:
        """Have the scheduler hear of a change when it is due, and then of the next."""
        change = self._real.change(number)
        if change is None:
            return

        def hear() -> None:
            self._found.planner.rates(change.rates_bps, self._now_s)
            self._hear(number + 1)

        self._at(change.at_s + self._plan.options.lag_s, hear)

    def play(self) -> Run:
        for rank in range(len(self._plan.workers)):
            self._begin(rank)
        planner = self._found.planner
        while self._ended < len(self._plan.workers) or not planner.is_replicated:
            due_s = self._events[0][0] if self._events else math.inf
            self._now_s = min(due_s, planner.next_s)
            if self._now_s == math.inf:
                raise RuntimeError("nothing is left to happen, and workers wait")
            if due_s <= self._now_s:
                heapq.heappop(self._events)[2]()
            for node, note in planner.tick(self._now_s):
                self._obey(node, note)
        return self._found

    def _at(self, due_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (due_s, next(self._numbers), action))

    def _begin(self, rank: int) -> None:
        def computed() -> None:
            number = self._iteration[rank] * len(self._plan.workers) + rank
            self._ready_s[number], self._computed_on[number] = self._now_s, self._version[rank]
            norm = self._norms.get(number, self._norm)
            self._found.planner.ready(number, self._version[rank], norm, self._now_s)

        self._at(self._now_s + self._pace(rank, self._iteration[rank]), computed)

    def _obey(self, node: int, note: Note) -> None:
        if isinstance(note, Order | Dropped | Commit | Give):
            self._serve(node, note)
        elif isinstance(note, Gather):
            self._groups[note.group] = _Group(note)
        elif isinstance(note, SendSums):
            self._groups[note.group].may_leave = True
            self._send_sums(node, note.group)
        elif isinstance(note, Send) and node == note.target and note.group >= 0:
            self._collect(node, note.group, note.update)
        elif isinstance(note, Send):
            self._arrives(Leg(node, note.target, (note.update,), note.shard), None, note.group)
        elif isinstance(note, Pass):
            self._passing[node].tell(note)

    def _collect(self, node: int, number: int, update: int) -> None:
        self._groups[number].here.add(update)
        self._send_sums(node, number)

    def _send_sums(self, node: int, number: int) -> None:
        if self._groups[number].leaves:
            group = self._groups.pop(number).note
            self._arrives(Leg(node, group.target, group.members, group.shard), group.shares)

    def _keeper(self, node: int) -> int:
        return self._plan.server if node in self._plan.roots else node

    def _there_s(self, leg: Leg) -> float:
        """Return when a transfer that may begin now ends; at once if a root sends to itself."""
        if leg.source == leg.target:
            return self._now_s
        planned = self._found.planner.traffic.planned(*leg)
        if not self._is_changing:
            return planned.end_s
        return self._real.end_s(later(planned, self._now_s), self._network.path(leg.source, leg.target))

    def _told(self, leg: Leg) -> None:
        if leg.source != leg.target:
            self._found.planner.arrived(leg.members, leg.source, leg.target, self._now_s, leg.shard)

    def _serve(self, node: int, note: Note) -> None:
        server = self._keeper(node)
        journal, copy = self._found.journals[server], self._found.copy
        if isinstance(note, Order):
            journal.expect(note.updates, note.versions, note.norms)
            if server == self._plan.server:
                copy.expect(note.updates, note.versions)
        elif isinstance(note, Dropped):
            if server == self._plan.server:
                copy.drop(note.update, note.version)
            self._decided(server, [journal.drop(note.update, note.version)])
        elif isinstance(note, Commit):
            journal.allow(note.updates)
        elif isinstance(note, Give):
            self._give(node, note)
        self._apply(server)

    def _arrives(self, leg: Leg, parts: Sequence[Share] | None, group: int = -1) -> None:
        """Have an update or a sum arrive when its transfer ends. ``parts`` is the share of each update in a sum; None
        for an update alone, which may be meant for the sum of a ``group``."""
        target, members = leg.target, leg.members
        copies = {} if self._plan.replica is None else {self._plan.replica: self._found.copy}
        ends = self._plan.servers_at(members[0] // len(self._plan.workers))
        held: dict[int, Journal] = {node: self._found.journals[self._keeper(node)] for node in ends} | copies

        def there() -> None:
            self._told(leg)
            if group >= 0:
                self._collect(target, group, members[0])
            elif target in held:
                versions = tuple(self._computed_on[number] for number in members)
                held[target].arrive(Unit(members, versions, parts is not None, tuple(parts or [(1.0, 1.0)])))
            for server in self._found.journals:
                self._apply(server)

        self._at(self._there_s(leg), there)

    def _apply(self, server: int) -> None:
        journal = self._found.journals[server]
        journal.replicated = self._found.copy.here
        self._decided(server, iter(partial(journal.next, self._rates), None))

    def _decided(self, server: int, steps: Iterable[Step]) -> None:
        """Carry out a server's steps; only the first server tells the scheduler of them."""
        for step in steps:
            for at, (number, version) in enumerate(zip(step.unit.members, step.unit.versions, strict=True)):
                self._stale[number] = step.begin + at - version
            if server == self._plan.server:
                self._untold += step.entries
                self._found.copy.decided(step.entries)
            if len(self._untold) >= self._together:
                self._found.planner.decided(self._untold, self._found.journal.version, self._now_s)
                self._untold = []
        while self._found.copy.next(self._rates) is not None:
            pass

    def _give(self, giver: int, note: Give) -> None:
        server = self._keeper(giver)
        shard, version = self._plan.servers.index(server), self._found.journals[server].version
        recipients = {recipient[0]: recipient for recipient in note.recipients}
        for (first, *_), onward in note.ways:
            told = tuple(recipients[node] for node in recipients_of(first, onward, recipients))
            self._comes(Leg(giver, first, (), shard), Weights(version, 0, 0, (), told, onward, shard))

    def _give_on(self, distributor: int, node: int, note: Weights, _floats: Floats, _rate_bps: float) -> None:
        self._comes(Leg(distributor, node, (), note.shard), replace(note, onward=()))

    def _comes(self, leg: Leg, note: Weights) -> None:
        """Have a shard of weights arrive when its transfer ends; it may then be passed on."""

        def there() -> None:
            for node in note.onward:
                self._passing[leg.target].take(node, note, NO_FLOATS)
            self._told(leg)
            for node, held_s, goes_on in note.recipients:
                if node == leg.target:
                    self._got(self._plan.workers.index(node), note.version, held_s, goes_on)

        self._at(self._there_s(leg), there)

    def _got(self, rank: int, version: int, held_s: float, goes_on: bool) -> None:
        """Take a shard of weights that has come to a worker, and go on once all are there. Raises RuntimeError: they
        are of different versions."""
        self._shards[rank].append(version)
        if len(self._shards[rank]) < len(self._plan.servers):
            return
        if len({*self._shards[rank]}) > 1:
            raise RuntimeError(f"worker {rank} got shards of versions {self._shards[rank]}")
        self._shards[rank] = []
        number = self._iteration[rank] * len(self._version) + rank
        update = Update(rank, self._iteration[rank], self._ready_s[number], self._now_s, self._stale[number], held_s)
        self._found.updates.append(update)
        self._version[rank] = version
        self._iteration[rank] += 1
        if goes_on:
            self._begin(rank)
        else:
            self._ended += 1
