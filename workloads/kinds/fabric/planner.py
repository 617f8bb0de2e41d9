"""What the scheduler decides: which update goes where, when and how fast, and who gets weights. Pure logic, no I/O.

Updates that become ready within a window are planned together (:mod:`.batch`). A plan is told to daemons piece by
piece, each piece when it is due. What was told has begun: it is not planned again, and neither is anything before it in
the order of updates. All else is planned again with the next batch, keeps its place in the order, and may get another
way. So no plan is ever called back.

What has begun is reserved in the network until its end was to be, or until it is known to have arrived. One that is
late is thought to need another tenth of its time.

Weights are sent to a worker once the server's link has something left for it. Those who ask meanwhile wait, and get
newer ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from workloads.kinds.fabric.batch import schedule
from workloads.kinds.fabric.fates import Entry
from workloads.kinds.fabric.messages import Dropped, Gather, Give, Note, Order, Send
from workloads.kinds.fabric.model import Batch, Group, Schedule, Transfer, Update
from workloads.kinds.fabric.network import Load, Network
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.fabric.sums import shares
from workloads.kinds.fabric.turns import Turn, Turns

LEAD_S = 0.002
"""How long before it is due a piece of a plan is told: more than a note takes to a daemon that has to be woken."""
LATE = 0.1
"""What a transfer that has not arrived when it was to is thought to need still, as a share of its time."""
FULL = 0.999
"""A transfer that is to have this much of its path's rate is not paced."""

Command = tuple[int, Note]
"""What to tell which node."""
Leg = tuple[int, int, tuple[int, ...]]
"""From node, to node, and whose updates."""


@dataclass(frozen=True)
class Work:
    """What is to be scheduled.

    Attributes:
        update_bytes: of one update, and of the weights.
        updates: how many in all.
        momentum: gamma of eq. 2.
        seed: of what is drawn.
        goodput: share of a link's rate that carries payload.
    """

    update_bytes: float
    updates: int
    momentum: float
    seed: int
    goodput: float


@dataclass(frozen=True)
class Moved:
    """A transfer that has begun: as it was planned, and when it was there; None while it is not."""

    planned: Transfer
    arrived_s: float | None = None


@dataclass(frozen=True)
class _Unit:
    """What is applied in one step: an update that goes straight to the server, or a group."""

    members: tuple[int, ...]
    group: Group | None
    transfers: tuple[Transfer, ...]

    @property
    def start_s(self) -> float:
        """When the first byte is to be on a wire."""
        return min((one.start_s for one in self.transfers if one.source != one.target), default=math.inf)


class Planner:
    """The scheduler's mind. Moments are those of its own clock, in seconds.

    Attributes:
        moved: all transfers that have begun.
        order: numbers of all updates that were planned to be sent, in their order.
        momentum: as in :class:`Work`.
    """

    def __init__(self, plan: Fabric, work: Work) -> None:
        self._plan, self._work = plan, work
        self._random = np.random.default_rng([work.seed, len(plan.workers)])
        self._turns = Turns(len(plan.workers), work.updates, plan.options.staleness)
        self._nominal = [float(rate_bps) for *_, rate_bps in plan.links for _ in range(2)]
        self._rates_bps = list(self._nominal)
        self._waiting: dict[int, Update] = {}
        """Those that have not begun, by number."""
        self._units: list[_Unit] = []
        """What was planned and has not begun, in order."""
        self._begun: set[int] = set()
        """Numbers of updates of which it is not known yet what became of them."""
        self._version = 0
        self._groups = 0
        self._plan_s = math.inf
        self._give_s = math.inf
        self._asking: list[Turn] = []
        self._running: dict[Leg, int] = {}
        """Where in :attr:`moved` transfers are that have not arrived."""
        self._leaving: list[Transfer] = []
        """Weights that are on their way; nobody tells when they are there."""
        self.moved: list[Moved] = []
        self.order: list[int] = []
        self.momentum = work.momentum
        self._network = self._idle()
        self._said: list[Command] = []

    @property
    def is_over(self) -> bool:
        """Whether all updates are decided, and everybody was promised the last weights."""
        return self._turns.is_complete and not self._asking

    @property
    def next_s(self) -> float:
        """When something is to be done next; infinity where nothing is until somebody says something."""
        begins = min((unit.start_s - LEAD_S for unit in self._units), default=math.inf)
        return min(self._plan_s, self._give_s, begins)

    def planned(self, source: int, target: int, members: Sequence[int]) -> Transfer:
        """A transfer that has begun and not arrived. Raises KeyError: there is none."""
        return self.moved[self._running[source, target, tuple(members)]].planned

    def given(self, note: Give) -> list[tuple[int, Transfer]]:
        """Of weights that are the last to be given: each recipient, and the transfer that brings them."""
        nodes = [node for node, _, _ in note.recipients]
        return list(zip(nodes, (one.planned for one in self.moved[-len(nodes) :]), strict=True))

    # What is heard.

    def ready(self, number: int, version: int, norm: float, now_s: float) -> None:
        """A worker's update waits to be sent.

        Raises:
            ValueError: it was there before.
        """
        if number in self._waiting or number in self._begun:
            raise ValueError(f"update {number} is there already")
        node = self._plan.workers[number % len(self._plan.workers)]
        self._waiting[number] = Update(number, node, (self._work.update_bytes,), version, now_s, norm)
        self._plan_s = min(self._plan_s, now_s + self._plan.options.window_s)

    def arrived(self, members: Sequence[int], source: int, target: int, now_s: float) -> None:
        """A transfer is there.

        Raises:
            ValueError: nobody was to send it.
        """
        way = (source, target, tuple(members))
        if way not in self._running:
            raise ValueError(f"updates {list(members)} from node {source} were not to go to node {target}")
        at = self._running.pop(way)
        self.moved[at] = replace(self.moved[at], arrived_s=now_s)

    def decided(self, entries: Sequence[Entry], version: int, now_s: float) -> None:
        """It is known what became of updates; the weights have this version."""
        self._version = version
        for number, _ in entries:
            self._begun.discard(number)
            self._turns.decided(number % len(self._plan.workers), now_s)
        self._asking += self._turns.taken(now_s)
        if self._asking:
            self._give_s = min(self._give_s, now_s)

    def rates(self, rates_bps: Mapping[int, float]) -> None:
        """Directed links have these rates now (bit/s), headers included."""
        for link, rate_bps in rates_bps.items():
            self._rates_bps[link] = rate_bps

    # What is decided.

    def tick(self, now_s: float) -> list[Command]:
        """Do what is due; returns what to tell, in order."""
        if self._plan_s <= now_s:
            self._plan_s = math.inf
            self._plan_all(now_s)
        self._begin(now_s)
        if self._give_s <= now_s:
            self._give(now_s)
        said, self._said = self._said, []
        return said

    def _plan_all(self, now_s: float) -> None:
        placed = tuple(number for unit in self._units for number in unit.members)
        network = self._as_used(now_s)
        batch = Batch(
            updates=tuple(replace(update, ready_s=now_s) for update in self._waiting.values()),
            servers=(self._plan.server,),
            aggregators=self._aggregators(),
            version=self._version + len(self._begun),
            delay_bound=self._plan.options.delay_bound,
            momentum=self._work.momentum,
            placed=placed,
        )
        made = schedule(batch, network)
        new = tuple(number for number in made.order if number not in set(placed))
        if new:
            versions = tuple(self._waiting[number].version for number in new)
            self._said.append((self._plan.server, Order(new, versions)))
            self.order += new
        for number in made.dropped:
            update = self._waiting.pop(number)
            self.order = [one for one in self.order if one != number]
            self._said.append((self._plan.server, Dropped(number, update.version)))
        self._units, self._network = units(made, self._plan.server), network

    def _aggregators(self) -> tuple[int, ...]:
        """In the order in which groups take them."""
        known = self._plan.aggregators
        if self._plan.options.assign == "fastest":
            return tuple(sorted(known, key=lambda node: -self._nic_bps(node)))
        return tuple(int(known[i]) for i in self._random.permutation(len(known)))

    def _nic_bps(self, node: int) -> float:
        """The slower direction of a node's fastest link."""
        ports = self._plan.topology.ports[node]
        return max(min(self._rates_bps[link], self._rates_bps[link ^ 1]) for link in ports)

    def _begin(self, now_s: float) -> None:
        """Tell what is due, and what comes before it in the order."""
        due = [i for i, unit in enumerate(self._units) if unit.start_s <= now_s + LEAD_S]
        for unit in self._units[: max(due, default=-1) + 1]:
            self._tell(unit, now_s)
        del self._units[: max(due, default=-1) + 1]

    def _tell(self, unit: _Unit, now_s: float) -> None:
        for number in unit.members:
            self._waiting.pop(number)
        self._begun.update(unit.members)
        group = -1
        if unit.group is not None:
            group, self._groups = self._groups, self._groups + 1
            last = unit.transfers[-1]
            parts = shares([1.0] * len(unit.members), self._work.momentum)
            wait_s = max(0.0, last.start_s - now_s)
            note = Gather(group, unit.members, parts, self._plan.server, wait_s, self._cap_bps(last))
            self._said.append((unit.group.aggregator, note))
            self._run(last)
        for one in unit.transfers[: len(unit.members)]:
            wait_s = max(0.0, one.start_s - now_s)
            self._said.append((one.source, Send(one.members[0], one.target, wait_s, self._cap_bps(one), group)))
            if one.source != one.target:
                self._run(one)

    def _run(self, transfer: Transfer) -> None:
        self._running[transfer.source, transfer.target, transfer.members] = len(self.moved)
        self.moved.append(Moved(transfer))

    def _cap_bps(self, transfer: Transfer) -> float:
        """How fast a transfer may be, headers included; 0 for as fast as its path."""
        path = self._network.path(transfer.source, transfer.target)
        most = max((rate for _, rate in transfer.rates), default=0.0) / self._work.goodput
        return 0.0 if most >= FULL * min((self._rates_bps[link] for link in path), default=0.0) else most

    def _give(self, now_s: float) -> None:
        """Send weights to whoever asks and has a way to get them now."""
        self._give_s, server = math.inf, self._plan.server
        ways, recipients, left = [], [], []
        for turn in self._asking:
            node = self._plan.workers[turn.rank]
            load = Load(server, node, self._work.update_bytes, now_s)
            transfer = self._network.copy().reserve(load)
            if transfer.start_s > now_s + LEAD_S:
                left.append(turn)
                self._give_s = min(self._give_s, transfer.start_s - LEAD_S)
                continue
            transfer = self._network.reserve(load)
            self.moved.append(Moved(transfer))
            self._leaving.append(transfer)
            ways.append((node, (), max(0.0, transfer.start_s - now_s), self._cap_bps(transfer)))
            recipients.append((node, turn.held_s, turn.goes_on))
        self._asking = left
        if ways:
            self._said.append((server, Give(tuple(ways), tuple(recipients))))

    # The network as the scheduler knows it.

    def _idle(self) -> Network:
        goodput = self._work.goodput
        rates = {link: [(0.0, rate_bps * goodput)] for link, rate_bps in enumerate(self._rates_bps)}
        return Network(self._plan.topology, rates)

    def _as_used(self, now_s: float) -> Network:
        """With what has begun."""
        network = self._idle()
        self._leaving = [one for one in self._leaving if one.end_s > now_s]
        for one in (*self._leaving, *(self.moved[at].planned for at in self._running.values())):
            if one.end_s <= now_s:
                more_s = LATE * (one.end_s - one.start_s)
                one = replace(one, rates=((now_s, max(rate for _, rate in one.rates)),), end_s=now_s + more_s)
            network.take(one)
        return network


def units(made: Schedule, server: int) -> list[_Unit]:
    """A schedule in pieces, in the order in which they are to be applied; of each the members' transfers, in their
    order, and last of all the sum's."""
    by = {(one.source, one.target, one.members): one for one in made.way.transfers}
    to = {(one.target, one.members): one for one in made.way.transfers}
    found = [_Unit((number,), None, (to[server, (number,)],)) for number in made.way.direct]
    for group in made.way.groups:
        parts = tuple(to[group.aggregator, (number,)] for number in group.members)
        found.append(_Unit(group.members, group, (*parts, by[group.aggregator, server, group.members])))
    return found
