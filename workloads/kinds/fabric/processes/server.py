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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from socket import socket
from typing import Any

from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.journal import Journal, Rates, Step
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.holder import Apply, Holder
from testbed.workloads.kinds.fabric.processes.messages import (
    Commit,
    Decided,
    Dropped,
    End,
    Give,
    Held,
    Note,
    Order,
    Weights,
    recipients_of,
)
from testbed.workloads.learning.checkpoint import Keeper
from testbed.workloads.serving.exchange import Floats
from testbed.workloads.sync.connection import Connection


@dataclass(frozen=True)
class State:
    """Weights that stay as they are: their version, and how many of the journal's entries are behind them."""

    weights: Floats
    version: int
    entries: int


class Server(Holder):
    """A server: it applies updates, and gives weights."""

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
        """Set up; ``held`` and ``rates`` are as in :class:`Holder`; ``momentum`` is gamma of eq. 2; ``keeper`` writes
        checkpoints."""
        lead = None if plan.replica is None else plan.options.lead(momentum)
        allowed = math.inf if len(plan.servers) == 1 else 0
        journal = Journal(plan.options.delay_bound, lead, momentum, allowed)
        super().__init__(plan, node, sockets, held, rates, journal)
        self._node, self._newest = node, State(self._weights, -1, 0)
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

    def _awaited(self) -> str:
        stuck = [connection.name for connection in self._stuck()]
        if stuck:
            return f"for {', '.join(stuck)} to take weights"
        if self._plan.replica is not None and self.journal.waits_for_replica:
            return f"for the replica on {self._plan.nodes[self._plan.replica]} to have more updates"
        world = len(self._plan.workers)
        names = sorted({self._plan.nodes[self._plan.workers[number % world]] for number in self.journal.awaited})
        return f"for updates of {', '.join(names)}" if names else f"for {self._plan.nodes[self._plan.scheduler]}"
