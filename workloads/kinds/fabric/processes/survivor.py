"""A server that goes on when other processes are lost.

When a worker's daemon is lost, the server gives weights straight to those that were to get them over it. When the
scheduler is lost, the server takes its place as far as it can: updates are applied as they come, still within the delay
bound, and each worker gets weights straight, as soon as its turn comes. The server's last line tells whom it has lost.

It is the only server: of several, one may have a shard of an update that another one never gets. One that has a replica
does more (:mod:`.replicated`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from socket import socket
from typing import Any

from testbed.workloads.kinds.fabric.journal import Rates, Step
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.planning.turns import Given, Turns
from testbed.workloads.kinds.fabric.processes.exchange import check_left
from testbed.workloads.kinds.fabric.processes.messages import Dropped, End, Give, Gone, Gradient, Note, recipients_of
from testbed.workloads.kinds.fabric.processes.server import Apply, Loss, Server
from testbed.workloads.serving.exchange import Floats
from testbed.workloads.sync.connection import Connection


@dataclass(frozen=True)
class Survival:
    """Settings of a server that goes on without others: the silence (s) after which a neighbour counts as lost, and the
    number of updates of the trial."""

    after_s: float
    updates: int


@dataclass(frozen=True)
class Gift:
    """The last weights that a node was given: over which node (itself, if straight), as what, how many entries of the
    journal it knew before, and how many of its updates were decided then."""

    over: int
    recipient: tuple[int, float, bool]
    known: int
    decided: int


class Survivor(Server):
    """A server that applies updates, and gives weights, whichever other process is lost."""

    def __init__(
        self,
        survival: Survival,
        plan: Fabric,
        sockets: Mapping[int, socket],
        held: tuple[Floats, Apply],
        rates: Rates,
        momentum: float = 0.0,
    ) -> None:
        """Set up as :class:`.server.Server`."""
        super().__init__(plan, plan.server, sockets, held, rates, momentum)
        self._survival = survival
        self._losses: list[Loss] = []
        self._begun, self._done = [1] * len(plan.workers), [0] * len(plan.workers)
        self._dismissed: set[int] = set()
        """Ranks that were told to end,"""
        self._ended: set[int] = set()
        """and nodes that have told that they do."""
        self._gifts: dict[int, Gift] = {}
        self._turns: Turns | None = None
        """Turns of workers, once the scheduler is lost."""
        self._gave: list[tuple[int, int]] = []

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:
        """Apply all updates of the trial, as one step.

        Raises:
            TrialTimeoutError: nothing moved for ``silence_s``; names what is waited for.
            NeighbourError: no worker is left.
            WorkerError: a process sent what it cannot have.
        """
        self._watch({*self._by_node}, self._survival.after_s)
        yield from super().serve(buckets, done, total, silence_s)

    def said(self) -> dict[str, Any]:
        """Report as :meth:`.server.Server.said` does. After losses, add the report that
        :meth:`testbed.workloads.kinds.base.Kind.survives` asks for, and how many entries the journal had; and what was
        sent as far as the server knows, if nobody else can tell: updates by their source, and weights."""
        if not self._losses:
            return super().said()
        now_s = time.monotonic()
        return {
            **super().said(),
            "time": now_s,
            "clock_s": now_s,
            "lost": [(loss.node, loss.at_s, loss.commit_s) for loss in self._losses],
            "lost_at": [(loss.node, loss.entries) for loss in self._losses],
            "came": self._received,
            "gave": self._gave,
        }

    @property
    def came(self) -> Sequence[tuple[int, tuple[int, ...], int]]:
        """List of all updates and sums that came: the sender, numbers of the updates, and bytes."""
        return self._received

    def _told(self, connection: Connection, note: Note) -> None:
        from_scheduler = connection.node == self._plan.scheduler
        if isinstance(note, End) and connection.node in self._plan.workers:
            self._ended.add(connection.node)
            self._end_all()
        elif isinstance(note, Dropped) and from_scheduler and self._losses and self.journal.knows(note.update):
            return  # it was to be sent again, and had come before
        elif isinstance(note, Gone) and from_scheduler:
            self._at(time.monotonic(), partial(self._give_up, note))
        else:
            super()._told(connection, note)

    def _repeated(self, note: Gradient) -> None:
        """Accept them: members of a group are sent again when its aggregator is lost."""

    def _decided(self, step: Step) -> None:
        for loss in self._losses:
            loss.decided(step)
        super()._decided(step)
        for number in step.unit.members:
            rank = number % len(self._plan.workers)
            self._done[rank] += 1
            if self._turns:
                self._turns.decided(rank, time.monotonic())

    def _apply_held(self) -> None:
        super()._apply_held()
        self._grant()

    def _give(self, give: Give) -> None:
        recipients = {one[0]: one for one in give.recipients}
        for (first, *_), onward in give.ways:
            for node in recipients_of(first, onward, recipients):
                rank, goes_on = self._plan.workers.index(node), recipients[node][2]
                self._gifts[node] = Gift(first, recipients[node], self._known[node], self._done[rank])
                self._begun[rank] += goes_on
                self._dismissed |= set() if goes_on else {rank}
            self._gave += [(self._plan.server, first), *((first, node) for node in onward)]
        super()._give(give)

    # Losses.

    def _has_lost(self, node: int) -> None:
        """
        Raises:
            NeighbourError: no worker is left.
        """
        self._note_loss(node)
        check_left(self._plan, self._former.keys())
        if node == self._plan.scheduler:
            self._take_over()
        elif self._turns:
            self._turns.lose(self._plan.workers.index(node))
        else:
            self._say(self._plan.scheduler, Gone(node, ()))
        self._give_again(node)
        self._apply_held()
        self._end_all()

    def _give_up(self, note: Gone) -> None:
        """Note that a node is lost, whether that was noticed here or not, and that these updates will not come: units
        that wait behind them get their turn."""
        for number in note.updates:
            self.journal.forget(number)
        self._lose(note.node)
        self._apply_held()

    def _note_loss(self, node: int) -> None:
        self._losses.append(Loss(node, time.monotonic(), len(self.journal.entries)))

    def _take_over(self) -> None:
        """Choose whose turn it is, because the scheduler is lost."""
        self.journal.open()
        lost = frozenset(rank for rank, node in enumerate(self._plan.workers) if node in self._former)
        given = Given(self._begun, self._done, lost, frozenset(self._dismissed))
        staleness = self._plan.options.staleness
        self._turns = Turns.taken_over(given, self._survival.updates, staleness, time.monotonic())

    def _grant(self) -> None:
        """Give weights straight to the workers whose turn it is, if the scheduler is lost."""
        turns = self._turns.taken(time.monotonic()) if self._turns else []
        if turns:
            nodes = [self._plan.workers[turn.rank] for turn in turns]
            recipients = tuple((node, turn.held_s, turn.goes_on) for node, turn in zip(nodes, turns, strict=True))
            self._give(Give(tuple(((node, 0.0, 0.0), ()) for node in nodes), recipients))

    def _give_again(self, lost: int) -> None:
        """Give weights straight to the workers that were to get them over this node. A worker that has them ignores
        them, and then knows no more than before; so the journal since then is told again with the next weights."""
        for node, gift in list(self._gifts.items()):
            rank = self._plan.workers.index(node)
            is_newest = gift.decided == self._done[rank]
            if gift.over == lost and is_newest and node != lost and node not in self._former:
                self._known[node] = gift.known
                self._gave.remove((lost, node))
                self._begun[rank] -= gift.recipient[2]
                self._give(Give((((node, 0.0, 0.0), ()),), (gift.recipient,)))
                self._known[node] = gift.known

    def _end_all(self) -> None:
        """Let daemons end once all have told that they do, if nobody else does."""
        if self._turns and not self._over and self._ended >= {*self._plan.workers} - self._former.keys():
            self._over = True
            for node in self._ended - self._former.keys():
                self._say(node, End())
