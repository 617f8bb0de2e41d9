"""A server's process: it has the weights, applies updates in the scheduler's order, and sends weights when told.

What is sent is a copy of the weights: the server's own change while they are on their way. A replica hears from the
server what is to be applied in which order, and what was: all on one connection, so that it hears it in that order. It
tells the server how many updates it has, and the server goes no further ahead of it than the bound allows.

One of several servers has a shard of the weights. It applies its shard of an update when the scheduler says that all
shards are there. What it is told, all servers are told in the same order, so each version has the same updates on all
of them (:mod:`~testbed.workloads.kinds.fabric.planning.commits`). Only the first one tells the scheduler what it
decided.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from socket import socket
from typing import Any

import numpy as np

from testbed.workloads.kinds.fabric.distance import lines
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.journal import Journal, Rates, Step, Unit
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.exchange import Exchange
from testbed.workloads.kinds.fabric.processes.messages import (
    Commit,
    Decided,
    Dropped,
    End,
    Give,
    Gradient,
    Held,
    Note,
    Order,
    Weights,
    recipients_of,
)
from testbed.workloads.learning.checkpoint import Keeper
from testbed.workloads.serving.exchange import Floats, Holder
from testbed.workloads.sync.connection import Connection

Apply = Callable[[Floats, bool, int], None]
"""Changes the weights by floats: by one update, or, if they are sums, by the sum of the given number of updates."""


def line(step: Step) -> list[Any]:
    """Return a step as a process reports it: its fate, and the numbers of its updates, their versions, and their
    shares."""
    return [int(step.fate), step.unit.members, step.unit.versions, step.unit.shares]


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
    """

    def __init__(
        self,
        plan: Fabric,
        node: int,
        sockets: Mapping[int, socket],
        held: tuple[Floats, Apply],
        rates: Rates = lambda _version, _computed_on: 1.0,
        momentum: float = 0.0,
        keeper: Keeper | None = None,
    ) -> None:
        """Set up; ``held`` are the weights, and the function that changes them; ``rates`` is as
        :meth:`.plan.Options.rates`; ``momentum`` is gamma of eq. 2; ``keeper`` writes checkpoints."""
        lead = None if plan.replica is None else plan.options.lead(momentum)
        allowed = math.inf if len(plan.servers) == 1 else 0
        super().__init__(plan.nodes[node], plan.nodes, sockets)
        self._plan, self._node, self._rates = plan, node, rates
        self._parents = (plan.scheduler,)
        self.journal = Journal(plan.options.delay_bound, lead, momentum, allowed)
        self._has_replica = plan.replica is not None
        self._weights, self._apply = held
        self._shard = plan.servers.index(node) if node in plan.servers else 0
        self._held: dict[int, Floats] = {}
        self._received: list[tuple[int, tuple[int, ...], int]] = []
        """All updates and sums that came: the sender, numbers of the updates, and bytes."""
        self._newest = State(self._weights, -1, 0)
        self._known = dict.fromkeys(plan.workers, 0)
        self._momentum, self._history = momentum, 0
        self._keeper = keeper or Keeper(None, lambda: self._weights)

    def keep(self, keeper: Keeper) -> None:
        """Use this keeper for checkpoints from now on."""
        self._keeper = keeper

    def said(self) -> dict[str, Any]:
        """Report the journal; ``received``: the number of the first update, and the bytes, of all that came;
        ``update_bytes``: the model's own. With a replica, report also how many updates it had at each step, the norms
        of updates by number, and numbers that show how far the weights are from the replica's."""
        told = {"journal": self._steps(), "received": self._sizes(), "update_bytes": self._weights.nbytes}
        told |= self._keeper.said()
        if self._has_replica:
            told |= {"leads": self.journal.leads, "norms": list(self.journal.norms.items())}
            told |= {"momentum": self._momentum, "lines": self._lines()}
        return told

    @property
    def _is_done(self) -> bool:
        return self._over

    def _steps(self) -> list[list[Any]]:
        """Return the journal, as lines."""
        return [line(step) for step in self.journal.steps]

    def _sizes(self) -> list[tuple[int, int]]:
        """Return the number of the first update, and the bytes, of each message with updates that came."""
        return [(members[0], count) for _, members, count in self._received]

    def _lines(self) -> list[float]:
        """Return numbers that show how far the weights are from the replica's or the server's, where there is a
        replica."""
        return lines(self._weights) if self._has_replica else []

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
        """Hold an update, or a sum, which has come, until its turn."""
        if self.journal.arrive(Unit(note.members, note.versions, note.group >= 0, note.shares), note.norms):
            self._held[note.members[0]] = floats
        else:
            self._repeated(note)
        self._received.append((source, note.members, floats.nbytes))
        self._apply_held()

    def _repeated(self, note: Gradient) -> None:
        """Handle a message of which a part was here before.

        Raises:
            ValueError: nobody sends an update twice.
        """
        raise ValueError(f"some of updates {list(note.members)} were here before")

    def _apply_held(self) -> None:
        while (step := self._next()) is not None:
            floats = self._held.pop(step.unit.members[0])
            if step.fate == Fate.DIRECT and step.unit.shares[0][0] != 1.0:
                floats = floats * np.float32(step.unit.shares[0][0])  # a copy: these may be on their way to a replica
            if step.fate.is_applied:
                self._apply(floats, step.fate == Fate.AGGREGATED, len(step.unit.members))
            self._decided(step)

    def _next(self) -> Step | None:
        return self.journal.next(self._rates)

    def _decided(self, step: Step) -> None:
        """Report a step. Then write a checkpoint, if it is time. While it is written nothing is read or applied, but
        data that was queued before goes on leaving."""
        self._report(step)
        self._keeper.after(len(self.journal.entries), self._hand_over)

    def _report(self, step: Step) -> None:
        decided = Decided(tuple(step.entries), self.journal.version)
        if self._shard == 0:
            self._say(self._plan.scheduler, decided)
        self._tell_replica(decided)

    def _tell_replica(self, note: Note) -> None:
        if self._plan.replica is not None:
            self._say(self._plan.replica, note)

    def _told(self, connection: Connection, note: Note) -> None:
        """Handle a note that is not an update.

        Raises:
            ValueError: it cannot be.
        """
        if isinstance(note, Held) and connection.node == self._plan.replica:
            self.journal.replicated = note.count
            self._apply_held()
        elif connection.node != self._plan.scheduler:
            raise self._misfit(connection, note)
        elif isinstance(note, Order):
            self.journal.expect(note.updates, note.versions, note.norms)
            self._tell_replica(note)
            self._apply_held()  # on another connection, an update may have been faster
        elif isinstance(note, Dropped):
            self._decided(self.journal.drop(note.update, note.version))
            self._apply_held()
        elif isinstance(note, Commit):
            self.journal.allow(note.updates)
            self._apply_held()
        elif isinstance(note, Give):
            self._give(note)
        elif isinstance(note, End):
            self._over = True
            self._tell_replica(note)
            self._say(self._plan.scheduler, End())
        else:
            raise self._misfit(connection, note)

    def _give(self, give: Give) -> None:
        """Send the newest weights along each way, when its time has come."""
        said_s, newest = self._begin_s(give), self._state()
        recipients = {one[0]: one for one in give.recipients}
        for (first, wait_s, rate_bps), onward in give.ways:
            nodes = recipients_of(first, onward, recipients)
            begin = min(self._known[node] for node in nodes)
            entries = tuple(self.journal.entries[begin : newest.entries])
            version = newest.version - sum(Fate(fate).is_applied for _, fate in entries)
            told = tuple(recipients[node] for node in nodes)
            note = Weights(
                newest.version, begin, version, entries, told, onward, self._shard, self._history, self._node
            )
            self._known |= dict.fromkeys(nodes, newest.entries)
            self._at(said_s + wait_s, self._sender(first, note, newest.weights, rate_bps))

    def _state(self) -> State:
        """Return the state whose weights workers get now."""
        if self._newest.entries != len(self.journal.entries):
            self._newest = State(self._requested(), self.journal.version, len(self.journal.entries))
        return self._newest

    def _requested(self) -> Floats:
        """Return the weights that are sent: a copy."""
        return self._weights.copy()

    def _sender(self, node: int, note: Weights, weights: Floats, rate_bps: float) -> Callable[[], None]:
        def send() -> None:
            self._pace(node, rate_bps)
            self._say(node, note, weights)

        return send

    def _sending(self) -> bool:
        return super()._sending() or bool(self._later)

    def _lacks(self) -> str:
        if self._plan.replica is not None and self.journal.waits_for_replica:
            return f"the replica on {self._plan.nodes[self._plan.replica]} to have more updates"
        world = len(self._plan.workers)
        names = sorted({self._plan.nodes[self._plan.workers[number % world]] for number in self.journal.awaited})
        return f"updates of {', '.join(names)}" if names else self._plan.nodes[self._plan.scheduler]
