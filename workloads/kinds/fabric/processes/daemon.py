"""A daemon's process: on a worker's host it sends the worker's updates, sums those of others, and passes weights on.

It does what the scheduler says and decides nothing. An update stays in the memory that it shares with the worker until
weights have come, so nothing is copied to be sent to the server. What goes to a replica may leave later: of each update
the daemon keeps a copy until it has left.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from socket import socket

import numpy as np

from testbed.base.errors import NeighbourError, WorkerError
from testbed.workloads.kinds.fabric.fates import Entry, Fate
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.exchange import Exchange
from testbed.workloads.kinds.fabric.processes.messages import (
    Back,
    Disband,
    End,
    Gather,
    Given,
    Gone,
    Gradient,
    Joined,
    Lost,
    Note,
    Pass,
    Push,
    Ready,
    Renewed,
    Resume,
    Send,
    SendSums,
    Weights,
)
from testbed.workloads.kinds.fabric.processes.passing import Passing
from testbed.workloads.kinds.fabric.processes.shared import Memory
from testbed.workloads.kinds.fabric.sums import Sums
from testbed.workloads.learning.parts import spans
from testbed.workloads.serving.exchange import Floats
from testbed.workloads.serving.watched import Seek
from testbed.workloads.sync.connection import Connection


class _Group:
    """Updates that are summed here: the scheduler's note about them, those that have come, and whether their sum may
    leave."""

    def __init__(self, note: Gather, floats: int, momentum: float) -> None:
        self.note = note
        self.go: SendSums | None = None
        self.sums = Sums(note.shares, floats, momentum)
        self.versions: dict[int, int] = {}
        self.norms: dict[int, float] = {}


class Daemon(Exchange):
    """A worker's daemon: it sends updates, sums them, and passes weights on."""

    def __init__(
        self,
        plan: Fabric,
        node: int,
        sockets: Mapping[int, socket],
        worker: socket,
        memory: Memory,
        momentum: float,
        loss_s: float | None = None,
        seek: Seek | None = None,
    ) -> None:
        """Set up; ``loss_s`` is as :attr:`testbed.workloads.job.WorkerJob.loss_s`; ``seek`` finds a server that is
        started again, where one may be."""
        super().__init__(f"{plan.nodes[node]}.daemon", plan.nodes, {**sockets, node: worker})
        self._plan, self._node, self._memory, self._momentum = plan, node, memory, momentum
        self._rank = plan.workers.index(node)
        self._parents, self._children = (plan.scheduler,), (node,)
        self._spans = [slice(*span) for span in spans(len(memory.weights), len(plan.servers))]
        """Place of each shard of an update, and of weights."""
        self._pushed: Push | None = None
        self._kept: dict[int, tuple[Push, Floats]] = {}
        """Copies of the worker's updates that are still to go to the replica, by number."""
        self._groups: dict[int, _Group] = {}
        self._early: dict[int, list[tuple[int, Gradient, Floats]]] = {}
        self._passing = Passing(self._send_weights)
        self._came_of: dict[int, Given] = {}
        """Notes that came with each shard of the weights that the worker gets next."""
        self._disbanded: set[int] = set()
        self._told: tuple[int, tuple[Entry, ...]] = 0, ()
        """Piece of the journal that came with the last weights: number of its first entry, and entries."""
        self._is_answered = True
        self._goes_on, self._has_ended = True, False
        self._loses_after_s, self._seek = loss_s, seek
        self._least_history, self._is_away = 0, False
        """Least ``history`` of notes that are not void; and whether this daemon waits to hear how to go on."""
        self._base, self._lost_above = 0, math.inf
        """The version of the worker's weights, and above which it was lost."""
        self._kept_entries: int | None = None

    @property
    def _goes_on_alone(self) -> bool:
        """Whether other processes may be lost without ending this one."""
        return self._loses_after_s is not None

    @property
    def _wires(self) -> Sequence[Connection]:
        return [connection for connection in self._connections if connection.node != self._node]

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:
        """Serve until no process has anything left to do.

        Raises:
            TrialTimeoutError: nothing moved for ``silence_s``.
            WorkerError: a process is gone, or sent what it cannot have.
        """
        returning = {} if self._seek is None else {self._plan.server: self._seek}
        self._watch(self._losable_nodes, self._loses_after_s, returning)
        self._until(lambda: not self._goes_on and not self._sending(), silence_s)
        self._has_ended = True
        self._say(self._head, End())
        self._until(lambda: self._over and not self._sending(), silence_s)
        yield total

    @property
    def _losable_nodes(self) -> set[int]:
        """Nodes whose loss this process survives: all, but the server where no other node can serve."""
        return {*self._by_node} - {self._node} - ({self._plan.server} if self._plan.replica is None else set())

    @property
    def _head(self) -> int:
        """The node that ends the trial: the scheduler's; the server's once the scheduler is lost."""
        return self._plan.server if self._plan.scheduler in self._former else self._plan.scheduler

    def _waits_for(self, connection: Connection) -> bool:
        """Whether a neighbour may not have ended yet. When this daemon has nothing left to do itself, others may end:
        the scheduler lets them when none has."""
        if connection.node == self._head:
            return not self._over
        return self._goes_on if connection.node == self._node else not self._has_ended

    def _room(self, connection: Connection, note: Note) -> Floats | None:
        if not isinstance(note, Weights | Gradient):
            return None
        if not 0 <= note.shard < len(self._spans):
            raise self._misfit(connection, note)
        if isinstance(note, Gradient) and not self._fits(note):
            raise self._misfit(connection, note)
        shard = self._memory.weights[self._spans[note.shard]]
        is_kept = isinstance(note, Weights) and self._is_read_in_place(note) and self._answers(note)
        return shard if is_kept else np.empty_like(shard)

    def _is_read_in_place(self, note: Weights) -> bool:
        """Whether weights for the worker need no copy: nobody else gets them from here, and they come once. After a
        loss two neighbours may send some at the same time."""
        return not note.onward and not self._goes_on_alone

    def _fits(self, note: Gradient) -> bool:
        """Whether an aggregator may get this: it must be one update, alone."""
        return note.sums == len(note.members) == len(note.versions) == len(note.norms) == 1

    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        from_scheduler = connection.node == self._plan.scheduler
        if isinstance(note, Resume) and from_scheduler and self._is_away and note.history >= self._least_history:
            self._resume(note)
        elif self._is_void(connection, note):
            return
        elif isinstance(note, Push) and connection.node == self._node:
            self._take_update(note)
        elif isinstance(note, Send) and from_scheduler:
            self._at(self._begin_s(note) + note.wait_s, partial(self._send, connection, note, self._plan))
        elif isinstance(note, Gather) and from_scheduler:
            self._gather(note)
        elif isinstance(note, SendSums) and from_scheduler:
            self._at(self._begin_s(note) + note.wait_s, partial(self._let_go, connection, note))
        elif isinstance(note, Pass) and from_scheduler:
            self._at(self._begin_s(note) + note.wait_s, partial(self._pass_on, note, self._plan.server))
        elif isinstance(note, Gradient) and floats is not None:
            self._say(self._plan.scheduler, self._arrival(note.members, connection.node, note.shard))
            self._collect(connection.node, note, floats)
        elif isinstance(note, Weights) and floats is not None:
            self._say(self._plan.scheduler, self._arrival((), connection.node, note.shard))
            self._take_weights(connection, note, floats)
        elif isinstance(note, Disband) and from_scheduler:
            self._disband(note.group)
        elif isinstance(note, Gone) and from_scheduler:
            self._at(time.monotonic(), partial(self._do_without, note.node))
        elif isinstance(note, End) and connection.node in (self._plan.scheduler, self._plan.server):
            self._over = True
        else:
            raise self._misfit(connection, note)

    # Its worker's updates.

    def _take_update(self, note: Push) -> None:
        self._pushed, self._is_answered, number = note, False, self._number(note)
        if self._plan.replica is not None:  # unless it is lost, or serves
            self._kept[number] = note, self._memory.update.copy()
        if not self._is_away:
            self._offer(note)

    def _offer(self, note: Push) -> None:
        number = self._number(note)
        if note.version > self._lost_above:
            self._say(self._plan.server, Lost(number))
        elif self._plan.scheduler in self._former:
            self._send_straight(note)
        else:
            self._say(self._plan.scheduler, Ready(number, note.version, note.norm))

    def _send_straight(self, note: Push) -> None:
        """Send an update to the server now, because nobody says when."""
        self._pace(self._plan.server, 0)
        number, history = self._number(note), self._least_history
        told = Gradient((number,), (note.version,), ((1.0, 1.0),), -1, 1, 0, history, (note.norm,))
        self._say(self._plan.server, told, self._memory.update)

    def _has_lost(self, node: int) -> None:
        """Go on without the scheduler: nothing is summed any more, and the update goes straight to the server if the
        server may not have it. The server ignores an update that it has. Raises NeighbourError: the server is lost,
        too."""
        self._passing.lose(node)
        if node == self._plan.server and self._seek is not None and self._goes_on:
            self._await_server(self._seek)
        elif {self._plan.server, self._plan.scheduler} <= self._former.keys():
            server, scheduler = (self._names[one] for one in (self._plan.server, self._plan.scheduler))
            problem = f"the server on {server} and the scheduler on {scheduler} are lost"
            raise NeighbourError(problem, fix="kill only one of them")
        if node != self._plan.scheduler:
            return
        self._leave_replica(is_fed=True)
        self._passing.send_all()
        self._disbanded |= self._groups.keys() | self._early.keys()
        self._groups, self._early = {}, {}
        if self._pushed is not None and not self._is_answered:
            self._send_straight(self._pushed)
        if self._has_ended:
            self._say(self._head, End())

    def _do_without(self, node: int) -> None:
        """Go on without the server, or without its replica: what was on its way there is not sent any more, and the
        other one gets its data as before. If another daemon is lost, the server feeds the replica."""
        self._lose(node)
        if node != self._plan.server:
            self._leave_replica(is_fed=node != self._plan.replica)
            return
        self._disband_for(node)
        self._passing.forget()
        self._plan, self._came_of = self._plan.taken_over, {}
        waits = self._pushed is not None and not self._is_answered
        unanswered = self._number(self._pushed) if self._pushed is not None and waits else -1
        self._say(self._plan.scheduler, Joined(unanswered, *self._told))

    def _leave_replica(self, *, is_fed: bool) -> None:
        """Send nothing more to the replica. A replica that is fed by the server cannot serve."""
        if is_fed:
            self._losable = {*self._losable} - {self._plan.server}
        if self._plan.replica is not None:
            self._disband_for(self._plan.replica)
            self._kept, self._plan = {}, self._plan.unreplicated

    def _disband_for(self, target: int) -> None:
        for group in [number for number, group in self._groups.items() if group.note.target == target]:
            self._disband(group)

    # A server that is started again.

    def _await_server(self, seek: Seek) -> None:
        """Find the new server, and say which update the worker has. All other notes are ignored until the scheduler
        says how to go on. Raises TrialTimeoutError: the server does not come."""
        lost_s = time.monotonic()
        self._least_history += 1
        self._is_away, self._later = True, []
        self._groups, self._early, self._came_of = {}, {}, {}
        self._passing.forget()
        self._has_again(self._plan.server, seek(self._stay_alive))
        number = self._rank
        if self._pushed is not None:
            number = self._number(self._pushed) + (len(self._plan.workers) if self._is_answered else 0)
        self._say(self._plan.server, Back(number, time.monotonic() - lost_s))

    def _resume(self, note: Resume) -> None:
        self._is_away, self._least_history = False, note.history
        # Until there are new weights, what a server before this one has lost stays lost.
        self._kept_entries = note.kept if self._kept_entries is None else min(self._kept_entries, note.kept)
        if self._base > note.version:
            self._lost_above = min(self._lost_above, note.version)
        early = [one for found in self._early.values() for one in found if one[1].history >= note.history]
        self._early = {}
        for one in early:
            self._early.setdefault(one[1].group, []).append(one)
        self._say(self._plan.scheduler, Renewed(note.history))
        if self._pushed is not None and not self._is_answered and self._rank not in note.waiting:
            self._offer(self._pushed)

    def _is_void(self, connection: Connection, note: Note) -> bool:
        """Whether this was sent before the server was started again."""
        if isinstance(note, Weights | Gradient):
            return note.history < self._least_history
        return self._is_away and connection.node == self._plan.scheduler and not isinstance(note, End)

    def _number(self, note: Push) -> int:
        return note.iteration * len(self._plan.workers) + self._rank

    def _send(self, connection: Connection, note: Send, plan: Fabric) -> None:
        """Send the update, whose time has come; the order was given under ``plan``. After a loss the update's fate may
        have been decided meanwhile: then its worker has gone on, and the update is not sent, unless it is kept for the
        replica."""
        is_over = self._pushed is not None and note.update < self._number(self._pushed)
        # After a loss, nothing goes to the server or replica any more for which an earlier order was.
        is_served = plan.server == self._plan.server
        is_void = plan is not self._plan and (note.target in plan.to_replica) == is_served
        if self._plan.scheduler in self._former or is_void:
            return
        if self._goes_on_alone and is_over and note.update not in self._kept:
            return
        push, floats = self._update(connection, note)
        alone = (note.update,), (push.version,), ((1.0, 1.0),)
        told = Gradient(*alone, note.group, 1, note.shard, self._least_history, (push.norm,))
        if note.target == self._node:
            self._collect(self._node, told, floats)
        else:
            self._pace(note.target, note.rate_bps)
            self._say(note.target, told, floats)

    def _update(self, connection: Connection, note: Send) -> tuple[Push, Floats]:
        """Return the worker's note about an update, and the shard of the update: a copy, if it goes to the replica, or
        to the node that was the replica."""
        if note.update in self._kept and (self._plan.replica is None or note.target in self._plan.to_replica):
            return self._kept.pop(note.update)
        if self._pushed is None or self._number(self._pushed) != note.update or note.target in self._plan.to_replica:
            raise self._misfit(connection, f"{note}, and the worker has {self._pushed}")
        return self._pushed, self._memory.update[self._spans[note.shard]]

    # Sums.

    def _gather(self, note: Gather) -> None:
        floats = len(self._memory.update[self._spans[note.shard]])
        self._groups[note.group] = _Group(note, floats, self._momentum)
        for early in self._early.pop(note.group, []):
            self._collect(*early)

    def _collect(self, source: int, note: Gradient, floats: Floats) -> None:
        """Add an update, which has come from a node, to its sum; the scheduler's note about the sum may not have come
        yet."""
        group = self._groups.get(note.group)
        if note.group in self._disbanded or self._plan.scheduler in self._former:
            return
        if group is None:
            self._early.setdefault(note.group, []).append((source, note, floats))
            return
        (number,), (version,) = note.members, note.versions
        try:
            group.sums.add(group.note.members.index(number), floats)
        except ValueError as error:
            raise WorkerError(
                f"{self._name} got update {number} for a group of {list(group.note.members)}: {error}",
                fix="report it: the protocol is broken",
            ) from error
        group.versions[number], group.norms[number] = version, note.norms[0]
        self._send_sums(group)

    def _let_go(self, connection: Connection, note: SendSums) -> None:
        if note.group in self._disbanded or self._plan.scheduler in self._former:
            return
        if note.group not in self._groups:
            raise self._misfit(connection, f"{note}, of which it has no updates")
        group = self._groups[note.group]
        group.go = note
        self._send_sums(group)

    def _send_sums(self, group: _Group) -> None:
        note = group.note
        if group.go is None or not group.sums.is_complete:
            return
        del self._groups[note.group]
        versions = tuple(group.versions[number] for number in note.members)
        self._pace(note.target, group.go.rate_bps)
        count, history = group.sums.count, self._least_history
        norms = tuple(group.norms[number] for number in note.members)
        told = Gradient(note.members, versions, note.shares, note.group, count, note.shard, history, norms)
        self._say(note.target, told, group.sums.floats)

    def _disband(self, group: int) -> None:
        self._disbanded.add(group)
        self._groups.pop(group, None)
        self._early.pop(group, None)

    # Weights.

    def _answers(self, note: Weights) -> bool:
        """Whether the worker waits for these weights. After the loss of a process that passed weights on, the same
        weights may come again."""
        if self._pushed is None or self._is_answered:
            return False
        number = self._number(self._pushed)
        return any(number == decided for decided, _ in note.entries)

    def _take_weights(self, connection: Connection, note: Weights, floats: Floats) -> None:
        """Take a shard of weights, which has come: for the worker here, for others, or for both. Raises WorkerError:
        the worker does not wait for them, and nobody was lost."""
        if note.server in self._former:
            return
        recipients = {one[0]: one for one in note.recipients}
        for node in note.onward:
            self._passing.take(node, replace(note, recipients=(recipients[node],), onward=()), floats)
        if self._plan.scheduler in self._former:
            self._passing.send_all()
        if self._node not in recipients:
            return
        if self._answers(note):
            for number, fate in note.entries:
                if fate == Fate.DROPPED:  # the replica gets none of these
                    self._kept.pop(number, None)
            self._told = note.begin, note.entries
            if not self._is_read_in_place(note):
                np.copyto(self._memory.weights[self._spans[note.shard]], floats)
            _, held_s, goes_on = recipients[self._node]
            given = Given(
                note.version, note.begin, note.begin_version, note.entries, held_s, goes_on, self._kept_entries
            )
            self._came_of[note.shard] = given
            self._give(connection)
        elif not self._goes_on_alone:
            raise self._misfit(connection, note)

    def _give(self, connection: Connection) -> None:
        if len(self._came_of) < len(self._spans):
            return
        given, *others = self._came_of.values()
        if any(other != given for other in others):
            raise self._misfit(connection, f"shards of other weights: {self._came_of}")
        self._came_of, self._is_answered, self._goes_on = {}, True, given.goes_on
        self._base, self._lost_above, self._kept_entries = given.version, math.inf, None
        self._say(self._node, given)

    def _pass_on(self, note: Pass, server: int) -> None:
        """Pass on weights, unless their server was lost meanwhile."""
        if server == self._plan.server:
            self._passing.tell(note)

    def _sending(self) -> bool:
        return super()._sending() or bool(self._later)

    def _awaited(self) -> str:
        worker = self._plan.nodes[self._node]
        if self._pushed is None:
            return f"for the worker on {worker}, or the scheduler on {self._plan.nodes[self._plan.scheduler]}"
        return f"for weights, or the scheduler on {self._plan.nodes[self._plan.scheduler]}"
