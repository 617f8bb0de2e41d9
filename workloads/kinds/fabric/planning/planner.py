"""Decisions of the scheduler: which update goes where, when and how fast, and who gets weights. Pure logic, no I/O.

Updates that become ready within a window are planned together
(:mod:`~testbed.workloads.kinds.fabric.scheduling.batch`). A plan is told to daemons piece by piece, each piece when it
is due. Once the first transfer of an update or of a group is told, its way is settled, and so are those of all before
it in the order of updates. All else is planned again with the next batch, keeps its place in the order, and may get
another way. Of what is settled, a transfer that has not begun may still get another time, for something before it may
be late (:mod:`.traffic`). So no plan is ever called back. The server is told the order of updates as their ways are
settled.

An update waits while a link on its way carries nothing. Its place in the order goes to others, so it is dropped once
its delay bound does not let it wait any longer.

Updates go to the replica, where there is one, by the same rules (:mod:`.copying`). None goes there before its way to
the server is settled, so the replica never gets what is dropped.

Weights are sent to a worker once the server's link has something left for it. Others wait, and get newer ones.

Several servers have a shard of the weights each. What they are told they are all told in one order
(:class:`.traffic.Commits`).

Where each iteration has a root in place of a server, all updates that wait are of one iteration, for nobody is given a
sum before it has all gradients. Those who still ask for a sum ask for that of the iteration before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from testbed.workloads.kinds.fabric.fates import Entry, Fate
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.planning.copying import Copying
from testbed.workloads.kinds.fabric.planning.settled import Piece, Settled, Unit, branches, units
from testbed.workloads.kinds.fabric.planning.traffic import EXACT_S, Commits, Leg, Traffic, fastest_bps
from testbed.workloads.kinds.fabric.planning.turns import Turn, Turns
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.processes.messages import (
    NEAR_S,
    Arrived,
    Commit,
    Decided,
    Disband,
    Dropped,
    Gather,
    Give,
    Gone,
    Hop,
    Nears,
    Note,
    Order,
    Pass,
    Ready,
    Resume,
    Send,
    SendSums,
    recipients_of,
)
from testbed.workloads.kinds.fabric.scheduling.batch import schedule
from testbed.workloads.kinds.fabric.scheduling.distribution import Request, distribute
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Drop, Group, Transfer, Update
from testbed.workloads.kinds.fabric.scheduling.network import Load
from testbed.workloads.kinds.fabric.sums import shares
from testbed.workloads.learning.parts import spans

LEAD_S = 0.01
"""How long before it is due a piece of a plan is told: longer than a note takes that waits behind data on a link."""
PACE = 1.02
"""How many times its reserved rate a transfer may be sent at: a faster one would leave a queue, behind which
acknowledgements of transfers in the other direction wait. At exactly its rate, a timer that is late now and then would
make it slower."""

Command = tuple[int, Note]
"""A note, and the node that it is for."""


class Planner:
    """The scheduler's decisions. Moments are those of its own clock, in seconds.

    Attributes:
        traffic: what has begun.
        order: numbers of all updates whose way is settled, in their order.
        batches: how often something was planned.
    """

    def __init__(self, plan: Fabric, work: Work, *, hears_nears: bool = False) -> None:
        """Set up; ``hears_nears`` says that :meth:`nears` is called for each transfer."""
        self._plan, self._work, self._hears_nears = plan, work, hears_nears
        self._random = np.random.default_rng([work.seed, len(plan.workers)])
        self._turns = Turns(len(plan.workers), work.updates, plan.options.staleness)
        self.traffic = Traffic(plan, work.goodput, hears_nears=hears_nears)
        self.order: list[int] = []
        self.batches = 0
        count = len(plan.servers)
        self._sizes_bytes = tuple(4.0 * (stop - first) for first, stop in spans(round(work.update_bytes / 4), count))
        self._commits = Commits(count) if count > 1 else None
        self._rates = plan.options.rates(work.learning_rate)
        self._copying = None if plan.replica is None else Copying(plan.replica, plan.options, work.momentum)
        self._copier = plan.replica
        """Node that has to get all updates besides the server, or that serves in its place; it has got
        :attr:`_copied`."""
        self._norms: dict[int, float] = {}
        """Norms of updates that the server has not been told of, by number."""
        self._waiting: dict[int, Update] = {}
        """Updates whose way is not settled, by number."""
        self._units: list[Unit] = []
        """Units that are planned and not settled, in order."""
        self._settled = Settled()
        self._undecided: set[int] = set()
        """Numbers of updates whose way is settled, and of which it is not known yet what became of them."""
        self._version = self._groups = self._copied = 0
        self._plan_s = self._give_s = math.inf
        self._again_s = math.inf
        """When units that have a place are to be planned again, because links have changed."""
        self._stuck: list[int] = []
        """Numbers of updates that wait for a link that carries nothing."""
        self._has_changed = False
        """Whether something arrived when it was not expected."""
        self._asking: list[Turn] = []
        self._network = self.traffic.network(0.0)
        self._said: list[Command] = []
        self._open: dict[int, Group] = {}
        """Groups whose sums are not known to be at the server, by number."""
        self._lost: set[int] = set()
        self._taken: dict[int, Turn] = {}
        """Turns after which no more is known of the worker, by rank."""

    def resumed(self, told: Resume, now_s: float) -> Planner:
        """Return a planner that goes on with a server that was started again. Every worker has an update that is still
        to come, or computes it, or waits for weights."""
        world, known = len(self._plan.workers), {number for number, _ in told.entries[: told.kept]}
        planner = Planner(self._plan, self._work, hears_nears=self._hears_nears)
        planner.order = [number for number in self.order if number in known]
        planner.batches, planner._groups, planner._version = self.batches, self._groups, told.version
        planner.traffic.follow(self.traffic)
        counts = Counter(number % world for number, _ in told.entries)
        done = [counts[rank] for rank in range(world)]
        staleness = self._plan.options.staleness
        planner._turns = Turns.resumed(done, told.waiting, self._work.updates, staleness, now_s)
        for node in self._lost:
            planner.lose(node, now_s)
        planner.decided((), told.version, now_s)
        return planner

    @property
    def next_s(self) -> float:
        """When something is to be done next; infinity where nothing is to be done before something is heard."""
        copies_s = self._copying.start_s if self._copying else math.inf
        begins_s = min(copies_s, self._settled.start_s, *(unit.start_s for unit in self._units))
        return min(self._plan_s, self._again_s, self._give_s, begins_s - LEAD_S)

    @property
    def is_replicated(self) -> bool:
        """Whether the replica has all updates, also if it serves by now; true where there is no replica."""
        return self._copier is None or (self._turns.is_complete and self._copied == len(self.order))

    # What is heard.

    def hear(self, node: int, note: Ready | Decided | Arrived | Nears, now_s: float, last_s: float = 0.0) -> None:
        """Take a node's note; ``last_s`` is for how much longer than receivers expect transfers take.

        Raises:
            ValueError: it cannot be.
        """
        if isinstance(note, Ready):
            self.ready(note.update, note.version, note.norm, now_s)
            return
        if isinstance(note, Decided):
            self.decided(note.entries, note.version, now_s)
            return
        at_s = now_s if note.at_s is None else min(now_s, note.at_s)
        if isinstance(note, Arrived):
            self.arrived(note.members, note.source, node, at_s, note.shard)
        else:
            end_s = at_s + min(max(0.0, note.left_s), NEAR_S) + last_s
            self.nears(Leg(note.source, node, note.members, note.shard), end_s, now_s)

    def ready(self, number: int, version: int, norm: float, now_s: float) -> None:
        """Take a worker's update, which waits to be sent.

        Raises:
            ValueError: it was there before.
        """
        if number in self._waiting or number in self._undecided:
            raise ValueError(f"update {number} is there already")
        node = self._node(number)
        if node in self._lost:
            return
        self._norms[number] = norm
        if self._copying:
            norm *= self._rates(self._version, version)  # at most so much, for rates fall
        self._waiting[number] = Update(number, node, self._sizes_bytes, version, now_s, norm)
        self._plan_s = min(self._plan_s, now_s + self._plan.options.window_s)

    def _node(self, number: int) -> int:
        return self._plan.workers[number % len(self._plan.workers)]

    def arrived(self, members: Sequence[int], source: int, target: int, now_s: float, shard: int = 0) -> None:
        """Note that a transfer has arrived.

        Raises:
            ValueError: nobody was to send it.
        """
        self._has_changed |= self.traffic.arrived(source, target, members, now_s, shard)
        if self._commits and target in self._plan.servers and self._commits.arrived(members, self.order):
            self._tell_servers(Commit(self._commits.count))
        if target == self._copier:
            self._copied += len(members)
        if target == self._plan.server:
            self._open = {number: one for number, one in self._open.items() if one.members != tuple(members)}

    def nears(self, leg: Leg, end_s: float, now_s: float) -> None:
        """Note that a transfer is expected to arrive at ``end_s``, which is soon. Transfers that wait for its links are
        planned again.

        Raises:
            ValueError: nobody was to send it.
        """
        change_s = self.traffic.nears(leg, end_s)
        self._has_changed |= abs(change_s) > EXACT_S
        if change_s < -EXACT_S:
            self._again_s = min(self._again_s, now_s)

    def decided(self, entries: Sequence[Entry], version: int, now_s: float) -> None:
        """Note the fates of updates; the weights have this version now.

        Raises:
            ValueError: a worker had no such update.
        """
        self._version = version
        for number, _ in entries:
            self._undecided.discard(number)
            rank = number % len(self._plan.workers)
            self._turns.decided(rank, now_s)
            self._taken.pop(rank, None)
        if self._lost:  # the server may have had updates that were to be sent again
            self._settled.forget([number for number, _ in entries])
            known = {(self._node(number), (number,)) for number, _ in entries}
            self.traffic.forget(lambda one: (one.source, one.members) in known)
        self._ask(now_s)
        if self._asking:
            self._give_s = min(self._give_s, now_s)
        if self._copying and self._turns.is_complete:
            self._plan_s = min(self._plan_s, now_s)

    def rates(self, rates_bps: Mapping[int, float], now_s: float) -> None:
        """Take new rates (bit/s, headers included) of directed links. All that is planned is planned again at once:
        what was to begin late, or never, may begin now. Updates that are new wait for the end of their window."""
        for link, rate_bps in rates_bps.items():
            self.traffic.rates_bps[link] = rate_bps
        self._again_s = min(self._again_s, now_s)

    def lose(self, node: int, now_s: float) -> None:
        """Note that a worker's daemon is lost. Groups that need it are disbanded: their other members are sent again,
        straight. Updates of lost workers are given up, unless the server has them, or a sum that is still to come
        contains them."""
        self._lost.add(node)
        self._break([number for number, group in self._open.items() if self._is_broken(group, node)], now_s)
        own = {number for number in (*self._waiting, *self._undecided) if self._node(number) in self._lost}
        own -= {number for group in self._open.values() for number in group.members}
        for number in own:
            self._waiting.pop(number, None)
            self._undecided.discard(number)
        self._settled.forget(own)
        self._settled.keep(lambda one: bool(one.members) or node not in (one.source, one.target))
        self._said.append((self._plan.server, Gone(node, tuple(sorted(own)))))
        self.traffic.forget(lambda one: node in (one.source, one.target))
        self._turns.lose(self._plan.workers.index(node))
        self._asking = [turn for turn in self._asking if self._plan.workers[turn.rank] != node]
        self._ask(now_s)
        self._units, self._plan_s = [], now_s

    def leave_replica(self, now_s: float) -> None:
        """Send nothing more to the replica: it is lost, or the server feeds it."""
        self._copying, self._copier, self._plan = None, None, self._plan.unreplicated
        self._forget_side(is_replica=True, now_s=now_s)

    def take_over(self, entries: Sequence[Entry], unanswered: Collection[int], now_s: float) -> None:
        """Let the replica serve in place of the server, which is lost. What is settled for the replica goes on; the
        rest is settled now.

        Args:
            entries: what is known of the server's decisions besides what :meth:`decided` was told.
            unanswered: ranks that wait for weights, although it is decided what became of their updates.
        """
        assert self._copying is not None
        assert self._plan.replica is not None
        self.decided(entries, self._version + sum(Fate(fate).is_applied for _, fate in entries), now_s)
        self._forget_side(is_replica=False, now_s=now_s)
        self._open = {}
        aggregators = self._drawn(self._plan.replica_aggregators, self._servers)
        self._copying.plan_all(aggregators, self.traffic.network(now_s), now_s)
        for unit in self._copying.units:
            group = self._gathered(unit, self._copying.settled(unit), (self._plan.replica,))
            self._settled.add(unit, group)
        self._copying, self._plan = None, self._plan.taken_over
        asking = {turn.rank for turn in self._asking}
        self._asking += [self._taken[rank] for rank in unanswered if rank in self._taken and rank not in asking]
        self._give_s = now_s

    def _forget_side(self, *, is_replica: bool, now_s: float) -> None:
        """Stop waiting for transfers to the replica, or else for those to the server and of weights."""
        self._settled.keep(lambda transfer: transfer.is_replica != is_replica)
        self.traffic.forget(lambda transfer: transfer.is_replica == is_replica)
        self._units, self._plan_s = [], now_s

    def _ask(self, now_s: float) -> None:
        """Note that the workers whose turn has come ask for weights."""
        turns = self._turns.taken(now_s)
        self._taken |= {turn.rank: turn for turn in turns}
        self._asking += turns

    def _break(self, groups: Sequence[int], now_s: float) -> None:
        """Disband these groups. Their members keep their places in the order, which the server knows; so each goes
        there straight: updates that are between them in the order may be in no sum with them. Updates of nodes that are
        lost are not sent again."""
        broken = {number: self._open.pop(number) for number in groups}
        members = {member for group in broken.values() for member in group.members}
        self._said += [(group.aggregator, Disband(number)) for number, group in broken.items()]
        sums = {(group.aggregator, group.members) for group in broken.values()}
        self.traffic.forget(lambda one: (one.source, one.members) in sums)
        self._settled.forget(members)
        network = self.traffic.network(now_s)
        again = {number for number in members & self._undecided if self._node(number) not in self._lost}
        for number in sorted(again, key=self.order.index):
            load = Load(self._node(number), self._plan.server, self._work.update_bytes, now_s, (number,))
            self._settled.add(Unit((number,), None, ((network.reserve(load),),)), -1)
            self._plan_s = now_s

    def _is_broken(self, group: Group, node: int) -> bool:
        """Whether a group still needs something from this node."""
        if node == group.aggregator:
            return True
        return any(
            self._node(number) == node
            and (self._settled.has(number) or self.traffic.is_on_its_way(node, group.aggregator, (number,)))
            for number in group.members
        )

    # What is decided.

    def tick(self, now_s: float) -> list[Command]:
        """Do what is due; return what to tell, in order."""
        if self._plan_s <= now_s:
            self._plan_s = math.inf
            self._plan_all(now_s, self._waiting)
        elif self._again_s <= now_s or (self.next_s <= now_s and (self._has_changed or self.traffic.is_late(now_s))):
            self._plan_all(now_s, [*self._placed, *self._stuck])
        for piece in self._settled.due(now_s + LEAD_S):
            self._tell(piece, now_s)
        self._begin(now_s)
        if self._give_s <= now_s:
            self._give(now_s)
        said, self._said = self._said, []
        return said

    def _plan_all(self, now_s: float, numbers: Sequence[int] | Mapping[int, Update]) -> None:
        """Give times to what is settled, and ways and times to these updates."""
        self._has_changed, self._again_s = False, math.inf
        self.batches += 1
        network = self.traffic.network(now_s)
        self._settled.again(network, now_s, self.traffic.expected_s)
        aggregators, replication = self._drawn(self._plan.aggregators, self._servers), None
        if self._copying and not self._turns.is_complete:  # then all is planned to go there
            to_replica = self._drawn(self._plan.replica_aggregators, self._servers)
            replication = self._copying.asked(to_replica, now_s)
        batch = Batch(
            updates=tuple(replace(self._waiting[number], ready_s=now_s) for number in numbers),
            servers=self._servers,
            aggregators=aggregators,
            version=self._version + len(self._undecided),
            delay_bound=self._plan.options.delay_bound,
            momentum=self._work.momentum,
            placed=self._placed,
            replication=replication,
        )
        made = schedule(batch, network)
        if self._copying and made.replicated:
            self._copying.planned(made.replicated.way)
        elif self._copying:
            self._copying.plan_all(self._drawn(self._plan.replica_aggregators, self._servers), network, now_s)
        self._stuck = [number for number, why in made.dropped.items() if why == Drop.UNREACHABLE]
        for number in (one for one in made.dropped if one not in self._stuck):
            self._norms.pop(number)
            self._tell_servers(Dropped(number, self._waiting.pop(number).version))
        self._units, self._network = units(made.way, self._servers), network
        if self._asking:
            self._give_s = now_s

    @property
    def _placed(self) -> tuple[int, ...]:
        """Numbers of the updates that have a place in the order, but no settled way."""
        return tuple(number for unit in self._units for number in unit.members)

    def _tell_servers(self, note: Note) -> None:
        self._said += [(server, note) for server in self._servers]

    @property
    def _servers(self) -> tuple[int, ...]:
        """Servers to which the waiting updates go."""
        return self._plan.servers_at(self._version // len(self._plan.workers))

    @property
    def _weight_servers(self) -> tuple[int, ...]:
        """Servers that hold the weights that workers ask for."""
        return self._plan.servers_at(self._version // len(self._plan.workers) - 1)

    def _drawn(self, allowed: Sequence[int], servers: Sequence[int]) -> tuple[int, ...]:
        """Return the aggregators that are left, in the order in which groups take them. A root sums nothing in its own
        iteration."""
        known = [node for node in allowed if node not in servers and node not in self._lost]
        if self._plan.options.assign != "fastest":
            return tuple(int(known[i]) for i in self._random.permutation(len(known)))
        rates, ports = self.traffic.rates_bps, self._plan.topology.ports
        slower_bps = {node: max(min(rates[link], rates[link ^ 1]) for link in ports[node]) for node in known}
        return tuple(sorted(known, key=lambda node: -slower_bps[node]))

    def _begin(self, now_s: float) -> None:
        """Settle what is due, and all before it in the order. What goes to the replica is settled for the server
        first."""
        until_s = now_s + LEAD_S
        self._settle(max((i for i, unit in enumerate(self._units, 1) if unit.start_s <= until_s), default=0))
        copies = self._copying.due(until_s) if self._copying else []
        sent = {number for unit in copies for number in unit.members}
        self._settle(max((i for i, unit in enumerate(self._units, 1) if sent.intersection(unit.members)), default=0))
        for unit in copies:
            assert self._copying is not None and self._plan.replica is not None  # noqa: PT018 - nothing else has copies
            self._settled.add(unit, self._gathered(unit, self._copying.settled(unit), (self._plan.replica,)))
        if self._settled.is_interrupted:
            self._plan_all(now_s, [*self._placed, *self._stuck])
        for piece in self._settled.due(until_s):
            self._tell(piece, now_s)

    def _settle(self, count: int) -> None:
        for unit in self._units[:count]:
            begin = self._version + len(self._undecided)
            updates = [self._waiting.pop(number) for number in unit.members]
            versions = tuple(update.version for update in updates)
            norms = tuple(self._norms.pop(number) for number in unit.members)
            self._tell_servers(Order(unit.members, versions, norms))
            self.order += unit.members
            self._undecided.update(unit.members)
            rates = [self._rates(begin + at, update.version) for at, update in enumerate(updates)]
            if self._copying:
                for update, rate in zip(updates, rates, strict=True):
                    self._copying.sent(update, rate)
            group = self._gathered(unit, rates, self._servers)
            if unit.group is not None:
                self._open[group] = unit.group
            self._settled.add(unit, group)
        del self._units[:count]

    def _gathered(self, unit: Unit, rates: Sequence[float], targets: Sequence[int]) -> int:
        """Tell the aggregator of a unit about its group, and return the group's number; -1 for an update alone. The sum
        of each shard is a group of its own, with the next number."""
        if unit.group is None:
            return -1
        group, self._groups = self._groups, self._groups + len(targets)
        parts = shares(rates, self._work.momentum)
        for shard, target in enumerate(targets):
            self._said.append((unit.group.aggregator, Gather(group + shard, unit.members, parts, target, shard)))
        return group

    def _tell(self, piece: Piece, now_s: float) -> None:
        one = piece.transfer
        wait_s, rate_bps = max(0.0, one.start_s - now_s), PACE * fastest_bps(one)
        if not one.members:
            self._said.append((one.source, Pass(one.target, wait_s, rate_bps, one.shard, now_s)))
        elif piece.parts:
            self._said.append((one.source, SendSums(piece.group, wait_s, rate_bps, now_s)))
        else:
            (number,), group = one.members, piece.group
            self._said.append((one.source, Send(number, one.target, wait_s, rate_bps, group, one.shard, now_s)))
        if one.source != one.target:
            self.traffic.begin(one)

    def _give(self, now_s: float) -> None:
        """Send weights to the workers that ask, if a server's link has something left for them now."""
        self._give_s, servers = math.inf, self._weight_servers
        turns = {self._plan.workers[turn.rank]: turn for turn in self._asking if self._is_reached(turn.rank, now_s)}
        if not turns:
            return
        request = Request(tuple(turns), servers, self._sizes_bytes, self._drawn(self._plan.aggregators, servers), now_s)
        way = distribute(request, self._network.copy())
        every = branches(way, servers, turns)
        begins_s = min((one.start_s for one in every), default=math.inf)
        if begins_s > now_s + LEAD_S:
            self._give_s = begins_s - LEAD_S
            return
        ways = [one for one in every if one.start_s <= now_s + LEAD_S]
        nodes = [node for one in ways for node in recipients_of(one.node, [*one.onward], turns)]
        recipients = tuple((node, turns[node].held_s, turns[node].goes_on) for node in nodes)
        for shard, server in enumerate(servers):
            told = tuple((self._hop(one.first[shard], now_s), tuple(one.onward)) for one in ways)
            self._said.append((server, Give(told, recipients, now_s)))
        for one in ways:  # what a distributor passes on; it is told when it is due
            for transfers in one.onward.values():
                for onward, first in zip(transfers, one.first, strict=True):
                    self._network.take(onward)
                    self._settled.pass_on(onward, first)
        self._asking = [turn for turn in self._asking if self._plan.workers[turn.rank] not in nodes]
        if self._asking:
            self._give_s = self._free_s(now_s)

    def _is_reached(self, rank: int, now_s: float) -> bool:
        """Whether weights can get to a worker; if not, it waits until links have changed."""
        loads = (Load(server, self._plan.workers[rank], 1.0, now_s) for server in self._weight_servers)
        return not self._network.may_stall() or all(self._network.end_s(load) < math.inf for load in loads)

    def _hop(self, transfer: Transfer, now_s: float) -> Hop:
        if transfer.source != transfer.target:
            self._network.take(transfer)
            self.traffic.begin(transfer)
        return transfer.target, max(0.0, transfer.start_s - now_s), PACE * fastest_bps(transfer)

    def _free_s(self, now_s: float) -> float:
        """Return when a server's link has something left for a worker that asks, less the time for telling."""
        starts_s = (
            self._network.copy().reserve_whole(Load(server, self._plan.workers[turn.rank], size_bytes, now_s)).start_s
            for server, size_bytes in zip(self._weight_servers, self._sizes_bytes, strict=True)
            for turn in self._asking
        )
        return max(now_s, min(starts_s) - LEAD_S)
