"""A trial in simulated time: the scheduler's planner, the servers' journals, and what workers and daemons do between
them, message by message.

The decisions are those of the processes (:mod:`.processes`): planner, journal, clock and the like are the same code.
:mod:`.ideal` has the same planner and journals, too, and less between them: there notes take no time, so that nobody
hears of anything late, and transfers end as planned. It stays beside this, for each trial is played there for its
prediction, and what moves here takes several times as long to play.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from testbed.workloads.kinds.fabric import fates
from testbed.workloads.kinds.fabric.fates import Entry, Fate
from testbed.workloads.kinds.fabric.journal import Copy, Journal, Step, Unit
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.planning.traffic import Leg
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.played_scheduler import Monitor, Scheduler
from testbed.workloads.kinds.fabric.played_transfers import Transfers
from testbed.workloads.kinds.fabric.processes.messages import (
    Arrived,
    Commit,
    Decided,
    Dropped,
    Gather,
    Give,
    Gradient,
    Held,
    Nears,
    Note,
    Order,
    Pass,
    Ready,
    Send,
    SendSums,
    Weights,
    recipients_of,
)
from testbed.workloads.kinds.fabric.processes.passing import NO_FLOATS, Passing
from testbed.workloads.kinds.parts import Iterations, PlayedWorker
from testbed.workloads.learning.parts import spans
from testbed.workloads.learning.replay import norms
from testbed.workloads.play.wires import Call, Wires
from testbed.workloads.serving.exchange import Floats
from testbed.workloads.sync.chunks import FLOAT_BYTES

ALONE = ((1.0, 1.0),)
"""Share of an update that is in no sum."""


@dataclass
class _Group:
    """A sum that is still to be made: versions of the updates that are here, and whether it may leave."""

    note: Gather
    versions: dict[int, int] = field(default_factory=dict)
    go: SendSums | None = None


class _Daemon(PlayedWorker):
    """A worker and its daemon."""

    def __init__(self, rank: int, node: int, passing: Passing) -> None:
        super().__init__(rank, node)
        self.passing = passing
        self.groups: dict[int, _Group] = {}
        self.early: dict[int, list[Gradient]] = defaultdict(list)
        """Updates that came before the scheduler's note about their sum."""
        self.shards: dict[int, Weights] = {}
        self.kept: dict[int, int] = {}
        """Versions of the worker's updates that are still to go to the replica, by number."""
        self.version = self.known = 0
        self.goes_on = True


class _Server:
    """A server, or a root's part that is one: its journal, what came, and which weights it gives."""

    def __init__(self, plan: Fabric, node: int, shard: int) -> None:
        allowed = math.inf if len(plan.servers) == 1 else 0
        lead = None if plan.replica is None else plan.options.lead(0.0)
        self.node, self.shard = node, shard
        self.journal = Journal(plan.options.delay_bound, lead, 0.0, allowed)
        self.received: list[tuple[int, int]] = []
        self.known = dict.fromkeys(plan.workers, 0)
        self.untold: list[Entry] = []
        self.newest = 0, 0
        """Version of the weights that workers get now, and how many entries of the journal are behind them."""


class _Replica:
    """A replica: its journal, what came, and how many updates the server knows it to have."""

    def __init__(self, node: int) -> None:
        self.node, self.journal = node, Copy()
        self.received: list[tuple[int, int]] = []
        self.told = 0


class Played:
    """A job's updates, which begin at this moment of the wires.

    Args:
        makes_sums: servers add a round of gradients up, and have no weights.
    """

    def __init__(self, plan: Fabric, asked: Iterations, wires: Wires, *, makes_sums: bool) -> None:
        self._plan, self._asked, self._wires, self._makes_sums = plan, asked, wires, makes_sums
        self._world, nbytes = len(plan.workers), FLOAT_BYTES * asked.floats
        self._bytes = [FLOAT_BYTES * (stop - first) for first, stop in spans(asked.floats, len(plan.servers))]
        work = Work(nbytes, self._world * asked.count, 0.0, asked.seed, wires.goodput)
        self._transfers = Transfers(wires)
        self._scheduler = Scheduler(plan, work, wires, self._transfers, self._obey)
        self._daemons = {
            node: _Daemon(rank, node, Passing(partial(self._send_weights, node)))
            for rank, node in enumerate(plan.workers)
        }
        holders = plan.roots or plan.servers
        self._servers = {node: _Server(plan, node, 0 if plan.roots else shard) for shard, node in enumerate(holders)}
        self._replica = None if plan.replica is None else _Replica(plan.replica)
        self._norm = norms(asked.floats, asked.seed, self._world) if self._replica else lambda _rank, _iteration: 0.0
        self._decided_count = 0
        monitor = Monitor(wires, self._scheduler.change, lambda: bool(self._waiting))
        wires.watch(monitor.change, lambda: bool(self._waiting))
        for daemon in self._daemons.values():
            self._begin(daemon)

    def lines(self) -> dict[str, list[dict[str, Any]]]:
        """Return by process the lines of iterations, and what the last line says besides what all say, once the wires
        have run.

        Raises:
            TrialError: workers wait for what never comes.
        """
        self._wires.require_none_waits(self._waiting)
        names = self._plan.nodes
        said = {names[node]: [*daemon.lines, {}] for node, daemon in self._daemons.items()}
        said |= {f"{names[node]}.daemon": [{}] for node in self._daemons}
        for node, server in self._servers.items():
            name = f"{names[node]}.daemon" if node in self._daemons else names[node]
            said[name] = [self._served(server)]
        if self._replica is not None:
            copied = [step.line for step in self._replica.journal.steps]
            said[names[self._replica.node]] = [{"copied": copied, "received": self._replica.received}]
        said[names[self._plan.scheduler]] = [self._scheduler.said()]
        return said

    @property
    def _waiting(self) -> list[str]:
        """Workers that have not ended."""
        return [self._plan.nodes[daemon.node] for daemon in self._daemons.values() if daemon.goes_on]

    def _served(self, server: _Server) -> dict[str, Any]:
        journal = server.journal
        said = {
            "journal": [step.line for step in journal.steps],
            "received": server.received,
            "update_bytes": self._bytes[server.shard],
        }
        if self._replica is not None:
            said |= {"leads": journal.leads, "norms": list(journal.norms.items()), "momentum": 0.0}
        return said

    # What the scheduler says.

    def _obey(self, node: int, note: Note) -> None:
        if isinstance(note, Order | Dropped | Commit | Give):
            self._serve(self._servers[node], note)
        elif isinstance(note, Gather):
            daemon = self._daemons[node]
            daemon.groups[note.group] = _Group(note)
            for early in daemon.early.pop(note.group, []):
                self._collect(daemon, early)
        elif isinstance(note, Send):
            self._later(node, note, partial(self._send, self._daemons[node], note))
        elif isinstance(note, SendSums):
            self._later(node, note, partial(self._let_go, self._daemons[node], note))
        elif isinstance(note, Pass):
            self._later(node, note, partial(self._daemons[node].passing.tell, note))

    def _later(self, node: int, note: Send | SendSums | Pass, call: Call) -> None:
        self._wires.at(self._transfers.begin_s(node, note) + note.wait_s, call)

    # Workers.

    def _begin(self, daemon: _Daemon) -> None:
        self._asked.begin(daemon, self._wires, partial(self._push, daemon))

    def _push(self, daemon: _Daemon) -> None:
        number = self._number(daemon)
        if self._replica is not None:
            daemon.kept[number] = daemon.version
        self._scheduler.tell(daemon.node, Ready(number, daemon.version, self._norm_of(number)))

    def _norm_of(self, number: int) -> float:
        return self._norm(number % self._world, number // self._world)

    def _number(self, daemon: _Daemon) -> int:
        return len(daemon.lines) * self._world + daemon.rank

    def _answered(self, daemon: _Daemon) -> None:
        """Take new weights, all of whose shards are here."""
        note = daemon.shards[0]
        daemon.shards = {}
        mine = self._number(daemon)
        new = fates.learn(note.begin, note.begin_version, note.entries, daemon.known, mine, self._world)
        ((_, held_s, goes_on),) = (told for told in note.recipients if told[0] == daemon.node)
        line = self._asked.line(daemon, self._wires.now_s)
        if not self._makes_sums:
            line |= {"update": new.at, "version": daemon.version, "staleness": new.version - daemon.version}
            line |= {"fate": int(new.fate), "held_s": held_s}
        daemon.lines.append(line)
        daemon.known, daemon.version, daemon.goes_on = new.known, note.version, goes_on
        if goes_on:
            self._begin(daemon)

    # Daemons.

    def _send(self, daemon: _Daemon, note: Send) -> None:
        """Send the worker's update: to the replica one that it may have made before."""
        version = daemon.kept.pop(note.update) if note.target in self._plan.to_replica else daemon.version
        alone = (note.update,), (version,), ALONE
        told = Gradient(*alone, note.group, 1, note.shard, 0, (self._norm_of(note.update),))
        self._send_gradient(daemon, note.target, told, note.rate_bps)

    def _send_gradient(self, daemon: _Daemon, target: int, told: Gradient, rate_bps: float) -> None:
        if target == daemon.node:
            self._collect(daemon, told)
            return

        def take() -> None:
            if target in self._daemons:
                self._collect(self._daemons[target], told)
            elif self._replica is not None and target == self._replica.node:
                self._copy(self._replica, told)
            else:
                self._hold(self._servers[target], told)

        self._move(Leg(daemon.node, target, told.members, told.shard), told, rate_bps, take)

    def _collect(self, daemon: _Daemon, told: Gradient) -> None:
        """Add an update to its sum; or, at a root, to that of its iteration."""
        number = told.members[0]
        if self._plan.roots and self._plan.servers_at(number // self._world) == (daemon.node,):
            self._hold(self._servers[daemon.node], told)
            return
        group = daemon.groups.get(told.group)
        if group is None:
            daemon.early[told.group].append(told)
            return
        group.versions[number] = told.versions[0]
        self._send_sums(daemon, group)

    def _let_go(self, daemon: _Daemon, note: SendSums) -> None:
        group = daemon.groups[note.group]
        group.go = note
        self._send_sums(daemon, group)

    def _send_sums(self, daemon: _Daemon, group: _Group) -> None:
        note = group.note
        if group.go is None or len(group.versions) < len(note.members):
            return
        del daemon.groups[note.group]
        versions = tuple(group.versions[number] for number in note.members)
        of_members = note.members, versions, note.shares
        told = Gradient(*of_members, note.group, 1, note.shard, 0, tuple(map(self._norm_of, note.members)))
        self._send_gradient(daemon, note.target, told, group.go.rate_bps)

    def _take_weights(self, daemon: _Daemon, note: Weights) -> None:
        recipients = {told[0]: told for told in note.recipients}
        for node in note.onward:
            daemon.passing.take(node, replace(note, recipients=(recipients[node],), onward=()), NO_FLOATS)
        if daemon.node not in recipients:
            return
        daemon.shards[note.shard] = note
        if len(daemon.shards) == len(self._bytes):
            self._answered(daemon)

    def _send_weights(self, source: int, target: int, note: Weights, floats: Floats, rate_bps: float) -> None:
        if source == target:
            self._take_weights(self._daemons[target], note)
            return
        take = partial(self._take_weights, self._daemons[target], note)
        self._move(Leg(source, target, (), note.shard), note, rate_bps, take)

    def _move(self, leg: Leg, note: Note, rate_bps: float, take: Call) -> None:
        """Send what a note announces, of which its receiver tells the scheduler before it takes it."""
        source, target, members, shard = leg

        def nears(left_s: float) -> None:
            told_s = self._transfers.told_s(target)
            self._scheduler.tell(target, Nears(members, source, left_s, shard, told_s))

        def came() -> None:
            self._scheduler.tell(target, Arrived(members, source, shard, self._transfers.told_s(target)))
            take()

        self._transfers.floats((source, target), note, self._bytes[shard], rate_bps, nears, came)

    # The replica.

    def _tell_replica(self, server: _Server, note: Order | Decided) -> None:
        replica = self._replica
        if replica is not None:
            self._transfers.note(server.node, replica.node, note, partial(self._follow, replica, note))

    def _follow(self, replica: _Replica, note: Order | Decided) -> None:
        if isinstance(note, Order):
            replica.journal.expect(note.updates, note.versions)
        else:
            replica.journal.decided(note.entries)
        self._level(replica)

    def _copy(self, replica: _Replica, told: Gradient) -> None:
        if not replica.journal.arrive(_unit(told)):
            raise ValueError(f"the replica had some of updates {list(told.members)} before")
        replica.received.append((told.members[0], self._bytes[0]))
        self._level(replica)

    def _level(self, replica: _Replica) -> None:
        """Apply what the server has applied, and tell it how many updates are here."""
        while replica.journal.next() is not None:
            pass
        if replica.journal.here > replica.told:
            replica.told, (server,) = replica.journal.here, self._servers.values()
            heard = partial(self._heard, server, replica.told)
            self._transfers.note(replica.node, server.node, Held(replica.told), heard)

    def _heard(self, server: _Server, count: int) -> None:
        server.journal.replicated = count
        self._apply(server)

    # Servers.

    def _hold(self, server: _Server, told: Gradient) -> None:
        if not server.journal.arrive(_unit(told), told.norms):
            raise ValueError(f"some of updates {list(told.members)} were here before")
        server.received.append((told.members[0], self._bytes[server.shard]))
        self._apply(server)

    def _serve(self, server: _Server, note: Order | Dropped | Commit | Give) -> None:
        if isinstance(note, Order):
            server.journal.expect(note.updates, note.versions, note.norms)
            self._tell_replica(server, note)
        elif isinstance(note, Dropped):
            self._decided(server, server.journal.drop(note.update, note.version))
        elif isinstance(note, Commit):
            server.journal.allow(note.updates)
        else:
            self._give(server, note)
        self._apply(server)

    def _apply(self, server: _Server) -> None:
        while (step := server.journal.next()) is not None:
            self._decided(server, step)

    def _decided(self, server: _Server, step: Step) -> None:
        """Report a step; where sums are made, a round of them."""
        self._tell_replica(server, Decided(tuple(step.entries), server.journal.version))
        server.untold += step.entries
        if self._makes_sums and len(server.untold) < self._world:
            return
        entries, server.untold = tuple(server.untold), []
        server.newest = server.journal.version, len(server.journal.entries)
        if server.shard != 0:
            return
        version = self._first(entries) + self._world if self._plan.roots else server.journal.version
        self._scheduler.tell(server.node, Decided(entries, version))
        self._decided_count += len(entries)
        self._asked.done(self._decided_count // self._world)

    def _first(self, entries: Sequence[Entry]) -> int:
        """Return the number of the first update of an iteration, given entries of it."""
        return entries[0][0] // self._world * self._world

    def _give(self, server: _Server, give: Give) -> None:
        """Send the newest weights along each way, when its time has come, as :meth:`.server.Server._give`."""
        said_s, (newest, count) = self._transfers.begin_s(server.node, give), server.newest
        recipients = {told[0]: told for told in give.recipients}
        for (first, wait_s, rate_bps), onward in give.ways:
            nodes = recipients_of(first, onward, recipients)
            begin = min(server.known[node] for node in nodes)
            entries = tuple(server.journal.entries[begin:count])
            version = newest - sum(Fate(fate).is_applied for _, fate in entries)
            told = tuple(recipients[node] for node in nodes)
            note = Weights(newest, begin, version, entries, told, onward, server.shard, 0, server.node)
            if self._plan.roots:
                number = self._first(entries)
                note = replace(note, version=number + self._world, begin=number, begin_version=number)
            server.known |= dict.fromkeys(nodes, count)
            send = partial(self._send_weights, server.node, first, note, NO_FLOATS, rate_bps)
            self._wires.at(said_s + wait_s, send)


def _unit(told: Gradient) -> Unit:
    return Unit(told.members, told.versions, told.group >= 0, told.shares)
