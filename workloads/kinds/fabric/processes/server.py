"""A server's process: it has the weights, applies updates in the scheduler's order, and sends weights when told.

What is sent is a copy of the weights: the server's own change while they are on their way. A replica hears from the
server what is to be applied in which order, and what was: all on one connection, so that it hears it in that order. It
tells the server how many updates it has, and the server goes no further ahead of it than the bound allows.

One of several servers has a shard of the weights. It applies its shard of an update when the scheduler says that all
shards are there. What it is told, all servers are told in the same order, so each version has the same updates on all
of them (:mod:`~testbed.workloads.kinds.fabric.planning.traffic`). Only the first one tells the scheduler what it
decided.

With :class:`Survival` a server goes on when other processes are lost; it is the only one then, for of several, one may
have a shard of an update that another one never gets. When a worker's daemon is lost, the server gives weights straight
to those that were to get them over it. When the scheduler is lost, the server takes its place as far as it can: updates
are applied as they come, still within the delay bound, and each worker gets weights straight, as soon as its turn
comes. The server's last line tells whom it has lost.

A server with a replica reports its decisions as it makes them, so that one process can repeat its work when it is lost
itself; and it goes on when its replica is lost. When a worker's daemon is lost, or the scheduler, nobody else can send
the replica all that it lacks: a lost daemon had updates still to send, and sums for the replica were of other updates
than those for the server. So the server feeds it. It sends its weights as they are, and then each update, or sum, when
its turn comes. It goes no further ahead than before. From then on it may not be lost any more: daemons keep no copies.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from socket import socket
from typing import Any

import numpy as np

from testbed.workloads.kinds.fabric.distance import lines
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.journal import Journal, Rates, Step, Unit
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.planning.turns import Turns
from testbed.workloads.kinds.fabric.processes.exchange import Exchange, check_left
from testbed.workloads.kinds.fabric.processes.messages import (
    Commit,
    Decided,
    Dropped,
    End,
    Give,
    Gone,
    Gradient,
    Held,
    Note,
    Order,
    Recipient,
    Snapshot,
    Weights,
    recipients_of,
)
from testbed.workloads.learning.checkpoint import Keeper
from testbed.workloads.serving.exchange import Floats, Holder
from testbed.workloads.sync.connection import Connection

Apply = Callable[[Floats, bool, int], None]
"""Changes the weights by floats: by one update, or, if they are sums, by the sum of the given number of updates."""


@dataclass(frozen=True)
class Served:
    """Weights, and how they change.

    Attributes:
        arrays: all that updates change: weights, and velocity with momentum.
        apply: changes them.
        rates: as :meth:`.plan.Options.rates`.
        momentum: gamma of eq. 2.
        copied: makes of the weights those that workers get, which stay as they are.
    """

    arrays: tuple[Floats, ...]
    apply: Apply
    rates: Rates = lambda _version, _computed_on: 1.0
    momentum: float = 0.0
    copied: Callable[[Floats], Floats] = np.copy


@dataclass(frozen=True)
class Survival:
    """Settings of a server that goes on without others: the silence (s) after which a neighbour counts as lost, and the
    number of updates of the trial."""

    after_s: float
    updates: int


@dataclass(frozen=True)
class State:
    """Weights that stay as they are: their version, and how many of the journal's entries are behind them."""

    weights: Floats
    version: int
    entries: int


@dataclass
class Loss:
    """A node was lost: when that was noticed, after how many entries of the journal, and when weights changed next."""

    node: int
    at_s: float
    entries: int
    commit_s: float | None = None

    def decided(self, step: Step) -> None:
        """Note a step that was decided since; the first that changes weights counts."""
        if self.commit_s is None and step.fate.is_applied:
            self.commit_s = time.monotonic()


class Server(Holder, Exchange):
    """A server: it applies updates, and gives weights.

    Every update, or sum of several, is applied whole, so that the weights are always one version, and a single process
    can repeat a trial from the journal.

    Attributes:
        journal: what became of each update.
        came: all updates and sums that came: the sender, numbers of the updates, and bytes.
        keeper: writes checkpoints.
    """

    def __init__(
        self, plan: Fabric, node: int, sockets: Mapping[int, socket], served: Served, survival: Survival | None = None
    ) -> None:
        """Set up; without ``survival`` it ends when another process is lost."""
        super().__init__(plan.nodes[node], plan.nodes, sockets)
        self._plan, self._node, self._parents = plan, node, (plan.scheduler,)
        self._served, self._weights = served, served.arrays[0]
        self._has_replica = plan.replica is not None
        lead = plan.options.lead(served.momentum) if self._has_replica else None
        allowed = math.inf if len(plan.servers) == 1 else 0
        self.journal = Journal(plan.options.delay_bound, lead, served.momentum, allowed)
        self._shard = plan.servers.index(node) if node in plan.servers else 0
        self._held: dict[int, Floats] = {}
        self.came: list[tuple[int, tuple[int, ...], int]] = []
        self.keeper = Keeper(None, lambda: self._weights)
        self._newest = State(self._weights, -1, 0)
        self._known = dict.fromkeys(plan.workers, 0)
        """By node, how many entries of the journal came with the last weights that it was given."""
        self._gifts: dict[int, tuple[int, Recipient, int]] = {}
        """By node that was given weights, until its worker's next update is decided: over which node (itself, if
        straight), as what, and how many entries of the journal it knew before."""
        self._gave: list[tuple[int, int]] = []
        self._history = 0
        self._loses_after_s = None if survival is None else survival.after_s
        self._losses: list[Loss] = []
        self._updates = 0 if survival is None else survival.updates
        self._turns = None if survival is None else Turns(len(plan.workers), self._updates, plan.options.staleness)
        """Turns of workers, which the scheduler chooses until it is lost."""
        self._ended: set[int] = set()
        """Nodes that have told that they end."""
        self._write: Callable[..., None] | None = None
        self._alone_from: int | None = None
        """Number of steps that had been made when the replica was lost."""
        self._snapshots = self._fed = 0
        """Number of snapshots that were sent to the replica, and how many updates of the order it has in the last one
        and was sent since."""

    def tells(self, write: Callable[..., None]) -> None:
        """Store ``write``, by which each step is written before anybody hears of it, if a replica may serve."""
        self._write = write if self._turns and self._has_replica else None

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:
        """Apply all updates of the trial, as one step.

        Raises:
            TrialTimeoutError, WorkerError: as :meth:`testbed.workloads.serving.exchange.Holder.serve`.
            NeighbourError: no worker is left.
        """
        self._watch({*self._by_node}, self._loses_after_s)
        yield from super().serve(buckets, done, total, silence_s)

    def said(self) -> dict[str, Any]:
        """Report the journal, and ``update_bytes``, the model's own. With a replica, report also how many updates it
        had at each step, and the norms of updates by number. After losses, add how many entries the journal had; and
        what was sent as far as the server knows, if nobody else can tell: updates by their source, and weights; and how
        many steps had been made when the replica was lost."""
        told = self._told_of("journal") | {"update_bytes": self._weights.nbytes} | self.keeper.said()
        if self._has_replica:
            told |= {"leads": self.journal.leads, "norms": list(self.journal.norms.items())}
            told |= {"momentum": self._served.momentum}
        if self._losses:
            told |= self._told_of_losses()
            told |= {"lost_at": [(loss.node, loss.entries) for loss in self._losses]}
            told |= {"came": self.came, "gave": self._gave}
        if self._alone_from is not None:
            told |= {"alone_from": self._alone_from}
        return told

    def _told_of(self, steps: str) -> dict[str, Any]:
        """Report the journal, under the name ``steps``; the number of the first update, and the bytes, of all that
        came; and where there is a replica, numbers that show how far the weights are from the other ones."""
        told: dict[str, Any] = {steps: [step.line for step in self.journal.steps]}
        told |= {"received": [(members[0], count) for _, members, count in self.came]}
        return told | ({"lines": lines(self._weights)} if self._has_replica else {})

    def _told_of_losses(self) -> dict[str, Any]:
        """Report losses as :meth:`testbed.workloads.kinds.base.Kind.survives` asks."""
        now_s = time.monotonic()
        lost = [(loss.node, loss.at_s, loss.commit_s) for loss in self._losses]
        return {"time": now_s, "clock_s": now_s, "lost": lost}

    @property
    def _is_done(self) -> bool:
        return self._over

    @property
    def _is_alone(self) -> bool:
        return self._plan.scheduler in self._former

    # What comes.

    def _room(self, connection: Connection, note: Note) -> Floats | None:
        if not isinstance(note, Gradient):
            return None
        members = len(note.members)
        is_whole = 0 < members == len(note.versions) == len(note.shares)
        is_weighed = len(note.norms) in (0, members)
        if note.sums not in (1, 2) or note.shard != self._shard or not is_whole or not is_weighed:
            raise self._misfit(connection, note)
        return np.empty(note.sums * len(self._weights), np.float32)

    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        try:
            if isinstance(note, Gradient) and floats is not None:
                self._arrived(connection.node, note, floats)
            else:
                self._told(connection, note)
        except ValueError as error:
            raise self._misfit(connection, f"{note}: {error}") from error

    def _arrived(self, source: int, note: Gradient, floats: Floats) -> None:
        self._say(self._plan.scheduler, self._arrival(note.members, source, self._shard))
        self._hold(source, note, floats)

    def _hold(self, source: int, note: Gradient, floats: Floats) -> None:
        """Hold an update, or a sum, which has come, until its turn. Members of a group are sent again when its
        aggregator is lost. Raises ValueError: some of it was here before, and nobody may be lost."""
        if self.journal.arrive(Unit(note.members, note.versions, note.group >= 0, note.shares), note.norms):
            self._held[note.members[0]] = floats
        elif self._loses_after_s is None:
            raise ValueError(f"some of updates {list(note.members)} were here before")
        self.came.append((source, note.members, floats.nbytes))
        self._apply_held()

    def _told(self, connection: Connection, note: Note) -> None:
        """Handle a note that is not an update. Raises ValueError: it cannot be."""
        if isinstance(note, Held) and connection.node == self._plan.replica:
            if note.snapshots == self._snapshots:  # otherwise it did not have the last one yet
                self.journal.replicated = note.count
                self._apply_held()
        elif isinstance(note, End) and self._turns and connection.node in self._plan.workers:
            self._ended.add(connection.node)
            self._end_all()
        elif connection.node != self._plan.scheduler:
            raise self._misfit(connection, note)
        elif isinstance(note, Order):
            self.journal.expect(note.updates, note.versions, note.norms)
            self._tell_replica(note)
            self._apply_held()  # on another connection, an update may have been faster
        elif isinstance(note, Dropped):
            if not (self._losses and self.journal.knows(note.update)):  # sent again after a loss, it had come before
                self._decided(self.journal.drop(note.update, note.version))
                self._apply_held()
        elif isinstance(note, Commit):
            self.journal.allow(note.updates)
            self._apply_held()
        elif isinstance(note, Give):
            if self._turns:
                for node, _, goes_on in note.recipients:
                    self._turns.give(self._plan.workers.index(node), goes_on)
            self._give(note)
        elif isinstance(note, Gone) and self._turns:
            self._at(time.monotonic(), partial(self._give_up, note))
        elif isinstance(note, End):
            self._over = True
            self._tell_replica(note)
            self._say(self._plan.scheduler, End())
        else:
            raise self._misfit(connection, note)

    # Updates.

    def _apply_held(self) -> None:
        while (step := self._next()) is not None:
            floats = self._held.pop(step.unit.members[0])
            if step.fate == Fate.DIRECT and step.unit.shares[0][0] != 1.0:
                floats = floats * np.float32(step.unit.shares[0][0])  # a copy: these may be on their way to a replica
            if step.fate.is_applied:
                self._served.apply(floats, step.fate == Fate.AGGREGATED, len(step.unit.members))
            self._decided(step)
        if self._turns and self._is_alone and (turns := self._turns.taken(time.monotonic())):
            self._give_straight(*((self._plan.workers[turn.rank], turn.held_s, turn.goes_on) for turn in turns))

    def _next(self) -> Step | None:
        """Decide on the unit whose turn it is. A replica that is fed is sent it before, with the shares of its
        updates."""
        unit = self.journal.turn if self._snapshots and self.journal.at >= self._fed else None
        if unit is not None and self._plan.replica is not None:
            floats = self._held[unit.members[0]]
            self._fed += len(unit.members)
            self._say(self._plan.replica, Order(unit.members, unit.versions, ()))
            group, sums = 0 if unit.is_sum else -1, len(floats) // len(self._weights)
            self._say(self._plan.replica, Gradient(unit.members, unit.versions, unit.shares, group, sums), floats)
        return self.journal.next(self._served.rates)

    def _decided(self, step: Step) -> None:
        """Report a step. Then write a checkpoint, if it is time. While it is written nothing is read or applied, but
        data that was queued before goes on leaving."""
        for loss in self._losses:
            loss.decided(step)
        self._report(step)
        for number in step.unit.members:
            rank = number % len(self._plan.workers)
            self._gifts.pop(self._plan.workers[rank], None)
            if self._turns:
                self._turns.decided(rank, time.monotonic())
        self.keeper.after(len(self.journal.entries), self._hand_over)

    def _report(self, step: Step) -> None:
        if self._write:
            norms = [self.journal.norms.get(number, 0.0) for number in step.unit.members]
            self._write(step=step.line, lead=self.journal.leads[-1], norms=norms, momentum=self._served.momentum)
        decided = Decided(tuple(step.entries), self.journal.version)
        if self._shard == 0:
            self._say(self._plan.scheduler, decided)
        self._tell_replica(decided)

    def _tell_replica(self, note: Note) -> None:
        """Send the replica a note, but no order if it is fed: it learns the order from the updates that it gets."""
        if self._plan.replica is not None and not (self._snapshots and isinstance(note, Order)):
            self._say(self._plan.replica, note)

    # Weights.

    def _give(self, give: Give) -> None:
        """Send the newest weights along each way, when its time has come."""
        said_s, newest = self._begin_s(give), self._state()
        recipients = {recipient[0]: recipient for recipient in give.recipients}
        for (first, wait_s, rate_bps), onward in give.ways:
            nodes = recipients_of(first, onward, recipients)
            begin = min(self._known[node] for node in nodes)
            entries = tuple(self.journal.entries[begin : newest.entries])
            version = newest.version - sum(Fate(fate).is_applied for _, fate in entries)
            told = tuple(recipients[node] for node in nodes)
            note = Weights(
                newest.version, begin, version, entries, told, onward, self._shard, self._history, self._node
            )
            self._gifts |= {node: (first, recipients[node], self._known[node]) for node in nodes}
            self._gave += [(self._node, first), *((first, node) for node in onward)]
            self._known |= dict.fromkeys(nodes, newest.entries)
            self._at(said_s + wait_s, partial(self._send_weights, first, note, newest.weights, rate_bps))

    def _state(self) -> State:
        if self._newest.entries != len(self.journal.entries):
            copied, entries = self._served.copied(self._weights), len(self.journal.entries)
            self._newest = State(copied, self.journal.version, entries)
        return self._newest

    def _give_straight(self, *recipients: Recipient) -> None:
        self._give(Give(tuple(((node, 0.0, 0.0), ()) for node, *_ in recipients), recipients))

    # Losses.

    def _has_lost(self, node: int) -> None:
        """Raises NeighbourError: no worker is left."""
        gone, now_s = Gone(node, ()), time.monotonic()
        self._losses.append(Loss(node, now_s, len(self.journal.entries)))
        self._say(self._plan.scheduler, gone)
        if node == self._plan.replica:
            self._alone_from = len(self.journal.steps)
            if self._is_alone:  # otherwise the scheduler decides who goes on; until then the bound holds
                self._at(now_s, partial(self._give_up, gone))
            return
        self._send_snapshot()
        check_left(self._plan, self._former.keys())
        if node == self._plan.scheduler:
            self.journal.open()
        elif self._turns:
            self._turns.lose(self._plan.workers.index(node))
        self._give_again(node)
        self._apply_held()
        self._end_all()

    def _give_up(self, note: Gone) -> None:
        """Note that a node is lost, whether that was noticed here or not, and that these updates will not come: units
        that wait behind them, or for a replica, get their turn."""
        for number in note.updates:
            self.journal.forget(number)
        self._lose(note.node)
        if note.node == self._plan.replica:
            self._plan = self._plan.unreplicated
            self.journal.let_go()
        self._apply_held()

    def _send_snapshot(self) -> None:
        """Send the replica a snapshot, with which it has the server's state."""
        if self._plan.replica is None or self._plan.replica in self._former:
            return
        self._snapshots, self._fed = self._snapshots + 1, self.journal.at
        self.journal.replicated = min(self.journal.replicated, self._fed)
        note = Snapshot(self._snapshots, self._fed, self.journal.version, len(self.journal.steps))
        self._say(self._plan.replica, note, np.concatenate(self._served.arrays))

    def _give_again(self, lost: int) -> None:
        """Give weights straight to the workers that were to get them over this node. A worker that has them ignores
        them, and then knows no more than before; so the journal since then is told again with the next weights."""
        for node, (over, recipient, known) in list(self._gifts.items()):
            if over == lost and node not in self._former:
                self._known[node] = known
                self._gave.remove((lost, node))
                self._give_straight(recipient)
                self._known[node] = known

    def _end_all(self) -> None:
        """Let daemons end once all have told that they do, if nobody else does."""
        if self._is_alone and not self._over and self._ended >= {*self._plan.workers} - self._former.keys():
            self._over = True
            self._tell_replica(End())
            for node in self._ended:
                self._say(node, End())

    # Waiting.

    def _sending(self) -> bool:
        return super()._sending() or bool(self._later)

    def _lacks(self) -> str:
        if self._plan.replica is not None and self.journal.waits_for_replica:
            return f"the replica on {self._plan.nodes[self._plan.replica]} to have more updates"
        world = len(self._plan.workers)
        names = sorted({self._plan.nodes[self._plan.workers[number % world]] for number in self.journal.awaited})
        return f"updates of {', '.join(names)}" if names else self._plan.nodes[self._plan.scheduler]
