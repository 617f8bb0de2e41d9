"""The server's process: it has the weights, applies updates in the scheduler's order, and sends weights when told.

Every update, or sum of several, is applied whole, so that what a worker computes on is always one version, and a single
process can repeat a trial from the server's journal. What is sent is a copy of the weights: the server's own change
while they are on their way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from socket import socket
from typing import Any

import numpy as np

from workloads.kinds.fabric.fates import Fate
from workloads.kinds.fabric.journal import Journal, Step, Unit
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.fabric.processes.exchange import Exchange, Floats
from workloads.kinds.fabric.processes.messages import (
    Arrived,
    Decided,
    Dropped,
    End,
    Give,
    Gradient,
    Note,
    Order,
    Weights,
)
from workloads.sync.connection import Connection

Apply = Callable[[Floats, bool, int], None]
"""Changes the weights by floats: by one update, or, if they are sums, by so many."""


@dataclass(frozen=True)
class State:
    """Weights that stay as they are: their version, and how many of the journal's entries are behind them."""

    weights: Floats
    version: int
    entries: int


class Server(Exchange):
    """Applies updates.

    Attributes:
        journal: what became of each.
    """

    def __init__(
        self,
        plan: Fabric,
        sockets: Mapping[int, socket],
        weights: Floats,
        apply: Apply,
        rates: Callable[[int, int], float] = lambda _version, _computed_on: 1.0,
    ) -> None:
        """``apply`` changes ``weights``; ``rates`` is as :meth:`.plan.Options.rates`."""
        super().__init__(plan.nodes[plan.server], dict(enumerate(plan.nodes)), sockets)
        self._plan, self._weights, self._apply, self._rates = plan, weights, apply, rates
        self._held: dict[int, Floats] = {}
        self._newest = State(weights, -1, 0)
        self._known = dict.fromkeys(plan.workers, 0)
        self.journal = Journal(plan.options.delay_bound)

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:
        """All updates together.

        Raises:
            TrialTimeoutError: nothing moved for ``silence_s``; names what is waited for.
            WorkerError: a process is gone, or sent what it cannot have.
        """
        self._until(lambda: self._over and not self._sending(), silence_s)
        yield total

    def said(self) -> dict[str, Any]:
        """The journal: of each step its fate, and of its updates numbers, versions, and what they count in it."""
        fields = [(int(step.fate), step.unit) for step in self.journal.steps]
        return {"journal": [[fate, unit.members, unit.versions, unit.shares] for fate, unit in fields]}

    def barrier(self, timeout_s: float) -> None:
        """Return once every process of the trial has called this.

        Raises:
            TrialTimeoutError, WorkerError: as :meth:`serve`.
        """
        self._barriers += 1
        self._say_barrier(self._plan.scheduler)
        self._until(lambda: self.met[self._plan.scheduler] == self._barriers, timeout_s)

    def _room(self, connection: Connection, note: Note) -> Floats | None:
        if not isinstance(note, Gradient):
            return None
        if note.sums not in (1, 2):
            raise self._misfit(connection, note)
        return np.empty(note.sums * len(self._weights), np.float32)

    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        try:
            if isinstance(note, Gradient) and floats is not None:
                self._arrived(connection.node, note, floats)
            elif connection.node == self._plan.scheduler:
                self._told(connection, note)
            else:
                raise self._misfit(connection, note)
        except ValueError as error:
            raise self._misfit(connection, f"{note}: {error}") from error

    def _arrived(self, source: int, note: Gradient, floats: Floats) -> None:
        self.journal.arrive(Unit(note.members, note.versions, note.group >= 0, note.shares))
        self._held[note.members[0]] = floats
        self._say(self._plan.scheduler, Arrived(note.members, source))
        self._apply_held()

    def _apply_held(self) -> None:
        while (step := self.journal.next(self._rates)) is not None:
            floats = self._held.pop(step.unit.members[0])
            if step.fate == Fate.DIRECT and step.unit.shares[0][0] != 1.0:
                floats *= np.float32(step.unit.shares[0][0])
            if step.fate.is_applied:
                self._apply(floats, step.fate == Fate.AGGREGATED, len(step.unit.members))
            self._report(step)

    def _report(self, step: Step) -> None:
        self._say(self._plan.scheduler, Decided(tuple(step.entries), self.journal.version))

    def _told(self, connection: Connection, note: Note) -> None:
        """By the scheduler."""
        if isinstance(note, Order):
            self.journal.expect(note.updates, note.versions)
        elif isinstance(note, Dropped):
            self._report(self.journal.drop(note.update, note.version))
            self._apply_held()
        elif isinstance(note, Give):
            self._give(note)
        elif isinstance(note, End):
            self._over = True
            self._say(self._plan.scheduler, End())
        else:
            raise self._misfit(connection, note)

    def _give(self, give: Give) -> None:
        """Send the newest weights along each way, when its time has come."""
        now_s, newest = time.monotonic(), self._state()
        recipients = {one[0]: one for one in give.recipients}
        for (first, wait_s, rate_bps), onward in give.ways:
            nodes = [node for node in (first, *(hop[0] for hop in onward)) if node in recipients]
            begin = min(self._known[node] for node in nodes)
            entries = tuple(self.journal.entries[begin : newest.entries])
            version = newest.version - sum(Fate(fate).is_applied for _, fate in entries)
            told = tuple(recipients[node] for node in nodes)
            note = Weights(newest.version, begin, version, entries, told, onward)
            self._known |= dict.fromkeys(nodes, newest.entries)
            self._at(now_s + wait_s, self._sender(first, note, newest.weights, rate_bps))

    def _state(self) -> State:
        """What workers get now."""
        if self._newest.entries != len(self.journal.entries):
            self._newest = State(self._weights.copy(), self.journal.version, len(self.journal.entries))
        return self._newest

    def _sender(self, node: int, note: Weights, weights: Floats, rate_bps: float) -> Callable[[], None]:
        def send() -> None:
            self._pace(node, rate_bps)
            self._say(node, note, weights)

        return send

    def _sending(self) -> bool:
        return super()._sending() or bool(self._later)

    def _awaited(self) -> str:
        stuck = [connection.name for connection in self._connections if connection.sending]
        if stuck:
            return f"for {', '.join(stuck)} to take weights"
        world = len(self._plan.workers)
        names = sorted({self._plan.nodes[self._plan.workers[number % world]] for number in self.journal.awaited})
        return f"for updates of {', '.join(names)}" if names else f"for {self._plan.nodes[self._plan.scheduler]}"
