"""A server that goes on when its replica is lost, and tells what it decides as it goes, so that one process can repeat
what it did when it is lost itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from socket import socket
from typing import Any

from workloads.checkpoint import Keeper
from workloads.kinds.fabric.journal import Rates, Step
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.fabric.processes.exchange import Floats
from workloads.kinds.fabric.processes.holder import Apply, line
from workloads.kinds.fabric.processes.messages import Gone, Note
from workloads.kinds.fabric.processes.server import Server
from workloads.sync.connection import Connection


class Replicated(Server):
    """Applies updates, and gives weights, with a replica or without."""

    def __init__(
        self,
        loss_s: float,
        plan: Fabric,
        sockets: Mapping[int, socket],
        held: tuple[Floats, Apply],
        rates: Rates,
        momentum: float = 0.0,
        keeper: Keeper | None = None,
    ) -> None:
        """As :class:`.server.Server`; ``loss_s`` is as :attr:`workloads.job.WorkerJob.loss_s`."""
        super().__init__(plan, plan.server, sockets, held, rates, momentum, keeper)
        self._loses_after_s = loss_s
        self._lost: list[tuple[int, float, int]] = []
        """Node, when that was noticed, and how many steps had been made."""
        self._commit_s: float | None = None
        self._tells: Callable[..., None] = lambda **_: None

    def tells(self, write: Callable[..., None]) -> None:
        """Each step is written before anybody hears of it."""
        self._tells = write

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:
        """All updates together.

        Raises:
            TrialTimeoutError, WorkerError: as :meth:`.holder.Holder.serve`.
        """
        assert self._plan.replica is not None
        self._watch({self._plan.replica}, self._loses_after_s)
        yield from super().serve(buckets, done, total, silence_s)

    def said(self) -> dict[str, Any]:
        """As :meth:`.server.Server.said`; and of the loss of the replica, what
        :meth:`workloads.kinds.base.Kind.survives` asks for, and how many steps had been made."""
        told = super().said()
        if not self._lost:
            return told
        now_s, ((node, at_s, steps),) = time.monotonic(), self._lost
        lost = {"lost": [(node, at_s, self._commit_s)], "alone_from": steps}
        return {**told, "time": now_s, "clock_s": now_s, **lost}

    def _report(self, step: Step) -> None:
        if self._lost and self._commit_s is None and step.fate.is_applied:
            self._commit_s = time.monotonic()
        lead = self.journal.leads[-1]
        norms = [self.journal.norms.get(number, 0.0) for number in step.unit.members]
        self._tells(step=line(step), lead=lead, norms=norms, momentum=self._momentum)
        super()._report(step)

    def _has_lost(self, node: int) -> None:
        """The scheduler decides who goes on; until then the bound holds."""
        self._lost.append((node, time.monotonic(), len(self.journal.steps)))
        self._say(self._plan.scheduler, Gone(node, ()))

    def _told(self, connection: Connection, note: Note) -> None:
        if isinstance(note, Gone) and connection.node == self._plan.scheduler:
            self._at(time.monotonic(), self._go_on_alone)
        else:
            super()._told(connection, note)

    def _go_on_alone(self) -> None:
        """The replica is lost, whether anything was noticed of it here or not."""
        assert self._plan.replica is not None
        self._lose(self._plan.replica)
        self._plan = self._plan.unreplicated
        self.journal.let_go()
        self._apply_held()
