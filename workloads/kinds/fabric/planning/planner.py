"""What the scheduler decides: which update goes where, when and how fast, and who gets weights. Pure logic, no I/O.

Updates that become ready within a window are planned together (:mod:`~workloads.kinds.fabric.scheduling.batch`). A plan
is told to daemons piece by piece, each piece when it is due. Once the first transfer of an update or of a group is
told, its way is settled, and so are those of all before it in the order of updates. All else is planned again with the
next batch, keeps its place in the order, and may get another way. Of what is settled, a transfer that has not begun may
still get another time, for something before it may be late (:mod:`.traffic`). So no plan is ever called back.

Weights are sent to a worker once the server's link has something left for it. Those who ask meanwhile wait, and get
newer ones.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from workloads.kinds.fabric.fates import Entry
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.fabric.planning.settled import Piece, Settled, Unit, units
from workloads.kinds.fabric.planning.traffic import Traffic, fastest_bps
from workloads.kinds.fabric.planning.turns import Turn, Turns
from workloads.kinds.fabric.processes.messages import Dropped, Gather, Give, Hop, Note, Order, Send, SendSums
from workloads.kinds.fabric.scheduling.batch import schedule
from workloads.kinds.fabric.scheduling.distribution import Request, distribute
from workloads.kinds.fabric.scheduling.model import Batch, Transfer, Update, Way
from workloads.kinds.fabric.scheduling.network import Load
from workloads.kinds.fabric.sums import shares

LEAD_S = 0.002
"""How long before it is due a piece of a plan is told: more than a note takes to a daemon that has to be woken."""
PACE = 1.1
"""A transfer is sent so much faster than its rate at most. One that has a link for itself is paced, too: else it leaves
a queue there, behind which the acknowledgements of transfers in the other direction wait. At its very rate a timer that
is late now and then makes it slower."""

Command = tuple[int, Note]
"""What to tell which node."""


@dataclass(frozen=True)
class Work:
    """What is to be scheduled.

    Attributes:
        update_bytes: of one update, and of the weights.
        updates: how many in all.
        momentum: gamma of eq. 2.
        seed: of what is drawn.
        goodput: share of a link's rate that carries payload.
        learning_rate: the workload's; 1 where it has none.
    """

    update_bytes: float
    updates: int
    momentum: float
    seed: int
    goodput: float
    learning_rate: float = 1.0


class Planner:
    """The scheduler's mind. Moments are those of its own clock, in seconds.

    Attributes:
        traffic: what has begun.
        order: numbers of all updates that were planned to be sent, in their order.
        batches: how often something was planned.
    """

    def __init__(self, plan: Fabric, work: Work) -> None:
        self._plan, self._work = plan, work
        self._random = np.random.default_rng([work.seed, len(plan.workers)])
        self._turns = Turns(len(plan.workers), work.updates, plan.options.staleness)
        self.traffic = Traffic(plan, work.goodput)
        self.order: list[int] = []
        self.batches = 0
        self._rates = plan.options.rates(work.learning_rate)
        self._waiting: dict[int, Update] = {}
        """Those whose way is not settled, by number."""
        self._units: list[Unit] = []
        """What was planned and is not settled, in order."""
        self._settled = Settled()
        self._undecided: set[int] = set()
        """Numbers of updates whose way is settled, and of which it is not known yet what became of them."""
        self._version = self._groups = 0
        self._plan_s = self._give_s = math.inf
        self._has_changed = False
        """Whether something arrived when it was not expected."""
        self._asking: list[Turn] = []
        self._network = self.traffic.network(0.0)
        self._said: list[Command] = []

    @property
    def next_s(self) -> float:
        """When something is to be done next; infinity where nothing is until somebody says something."""
        begins = min((unit.start_s for unit in self._units), default=math.inf)
        return min(self._plan_s, self._give_s, min(begins, self._settled.start_s) - LEAD_S)

    # What is heard.

    def ready(self, number: int, version: int, norm: float, now_s: float) -> None:
        """A worker's update waits to be sent.

        Raises:
            ValueError: it was there before.
        """
        if number in self._waiting or number in self._undecided:
            raise ValueError(f"update {number} is there already")
        node = self._plan.workers[number % len(self._plan.workers)]
        self._waiting[number] = Update(number, node, (self._work.update_bytes,), version, now_s, norm)
        self._plan_s = min(self._plan_s, now_s + self._plan.options.window_s)

    def arrived(self, members: Sequence[int], source: int, target: int, now_s: float) -> None:
        """A transfer is there.

        Raises:
            ValueError: nobody was to send it.
        """
        self._has_changed |= self.traffic.arrived(source, target, members, now_s)

    def decided(self, entries: Sequence[Entry], version: int, now_s: float) -> None:
        """It is known what became of updates; the weights have this version.

        Raises:
            ValueError: a worker had no such update.
        """
        self._version = version
        for number, _ in entries:
            self._undecided.discard(number)
            self._turns.decided(number % len(self._plan.workers), now_s)
        self._asking += self._turns.taken(now_s)
        if self._asking:
            self._give_s = min(self._give_s, now_s)

    def rates(self, rates_bps: Mapping[int, float], now_s: float) -> None:
        """Directed links have these rates now (bit/s), headers included. All is planned again at once: what was to
        begin late, or never, may begin now."""
        for link, rate_bps in rates_bps.items():
            self.traffic.rates_bps[link] = rate_bps
        self._plan_s = min(self._plan_s, now_s)

    # What is decided.

    def tick(self, now_s: float) -> list[Command]:
        """Do what is due; returns what to tell, in order."""
        if self._plan_s <= now_s:
            self._plan_s = math.inf
            self._plan_all(now_s, self._waiting)
        elif self.next_s <= now_s and (self._has_changed or self.traffic.is_late(now_s)):
            placed = [number for unit in self._units for number in unit.members]
            self._plan_all(now_s, placed)
        for piece in self._settled.due(now_s + LEAD_S):
            self._tell(piece, now_s)
        self._begin(now_s)
        if self._give_s <= now_s:
            self._give(now_s)
        said, self._said = self._said, []
        return said

    def _plan_all(self, now_s: float, numbers: Sequence[int] | Mapping[int, Update]) -> None:
        """Give times to what is settled, and ways and times to these updates."""
        self._has_changed = False
        self.batches += 1
        network = self.traffic.network(now_s)
        self._settled.again(network, now_s, self.traffic.expected_s)
        placed = tuple(number for unit in self._units for number in unit.members)
        batch = Batch(
            updates=tuple(replace(self._waiting[number], ready_s=now_s) for number in numbers),
            servers=(self._plan.server,),
            aggregators=self._aggregators(),
            version=self._version + len(self._undecided),
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
        if self._asking:
            self._give_s = now_s

    def _aggregators(self) -> tuple[int, ...]:
        """In the order in which groups take them."""
        known = self._plan.aggregators
        if self._plan.options.assign == "fastest":
            return tuple(sorted(known, key=lambda node: -self._nic_bps(node)))
        return tuple(int(known[i]) for i in self._random.permutation(len(known)))

    def _nic_bps(self, node: int) -> float:
        """The slower direction of a node's fastest link."""
        rates, ports = self.traffic.rates_bps, self._plan.topology.ports[node]
        return max(min(rates[link], rates[link ^ 1]) for link in ports)

    def _begin(self, now_s: float) -> None:
        """Settle what is due, and what comes before it in the order."""
        due = [i for i, unit in enumerate(self._units) if unit.start_s <= now_s + LEAD_S]
        if not due:
            return
        for unit in self._units[: due[-1] + 1]:
            self._settle(unit)
        del self._units[: due[-1] + 1]
        for piece in self._settled.due(now_s + LEAD_S):
            self._tell(piece, now_s)

    def _settle(self, unit: Unit) -> None:
        begin = self._version + len(self._undecided)
        versions = [self._waiting.pop(number).version for number in unit.members]
        self._undecided.update(unit.members)
        group = -1
        if unit.group is not None:
            group, self._groups = self._groups, self._groups + 1
            rates = [self._rates(begin + at, version) for at, version in enumerate(versions)]
            parts = shares(rates, self._work.momentum)
            self._said.append((unit.group.aggregator, Gather(group, unit.members, parts, self._plan.server)))
        self._settled.add(unit, group)

    def _tell(self, piece: Piece, now_s: float) -> None:
        one = piece.transfer
        wait_s, rate_bps = max(0.0, one.start_s - now_s), PACE * fastest_bps(one)
        if piece.parts:
            self._said.append((one.source, SendSums(piece.group, wait_s, rate_bps)))
        else:
            self._said.append((one.source, Send(one.members[0], one.target, wait_s, rate_bps, piece.group)))
        if one.source != one.target:
            self.traffic.begin(one)

    def _give(self, now_s: float) -> None:
        """Send weights to those who ask, if the server's link has something left for them now."""
        self._give_s, server = math.inf, self._plan.server
        turns = {self._plan.workers[turn.rank]: turn for turn in self._asking}
        request = Request(tuple(turns), (server,), (self._work.update_bytes,), self._aggregators(), now_s)
        way = distribute(request, self._network.copy())
        begins_s = min((one.start_s for one in way.transfers if one.source == server), default=math.inf)
        if begins_s > now_s + LEAD_S:
            self._give_s = begins_s - LEAD_S
            return
        ways = self._reserved(way, turns, now_s)
        nodes = [node for (node, *_), onward in ways for node in (node, *(hop[0] for hop in onward)) if node in turns]
        recipients = tuple((node, turns[node].held_s, turns[node].goes_on) for node in nodes)
        self._said.append((server, Give(tuple(ways), recipients)))
        self._asking = [turn for node, turn in turns.items() if node not in nodes]
        if self._asking:
            self._give_s = self._free_s(now_s)

    def _reserved(self, way: Way, asking: Container[int], now_s: float) -> list[tuple[Hop, tuple[Hop, ...]]]:
        """What of a way of weights is to begin now: all that goes over distributors, and of what goes straight to
        workers, what can leave now; it is reserved. A distributor whose group are other distributors has nobody to
        pass weights on to."""
        server = self._plan.server
        to = {(one.source, one.target): one for one in way.transfers}
        over = {group.aggregator for group in way.groups}
        found = []
        for group in way.groups:
            first = to[server, group.aggregator]
            onward = [to[group.aggregator, node] for node in group.members if node not in over]
            if not onward and group.aggregator not in asking:
                continue
            found.append((self._hop(first, now_s), tuple(self._hop(one, first.end_s) for one in onward)))
        for node in way.direct:
            one = to[server, node]
            if node not in over and one.start_s <= now_s + LEAD_S:
                found.append((self._hop(one, now_s), ()))
        return found

    def _hop(self, transfer: Transfer, from_s: float) -> Hop:
        """A transfer of weights, which begins; ``from_s`` is when its sender is to have them."""
        self._network.take(transfer)
        self.traffic.begin(transfer)
        return transfer.target, max(0.0, transfer.start_s - from_s), PACE * fastest_bps(transfer)

    def _free_s(self, now_s: float) -> float:
        """When the server's link has something left for one of those who ask, less what it takes to tell."""
        loads = (Load(self._plan.server, self._plan.workers[turn.rank], 1.0, now_s) for turn in self._asking)
        starts_s = (self._network.copy().reserve(load).start_s for load in loads)
        return max(now_s, min(starts_s) - LEAD_S)
