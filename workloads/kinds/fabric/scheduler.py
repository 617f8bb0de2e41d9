"""The scheduler's process: it hears what is ready and what has arrived, and tells everybody what to do and when."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from socket import IPPROTO_TCP, TCP_MAXSEG, socket
from typing import Any

from workloads.kinds.fabric.exchange import Exchange, Floats
from workloads.kinds.fabric.messages import Arrived, Decided, End, Note, Ready
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.fabric.planner import Planner, Work
from workloads.sync.connection import Connection
from workloads.sync.cost import goodput
from workloads.sync.tcp_info import HEADERS_BYTES


class Scheduler(Exchange):
    """Runs a :class:`.planner.Planner`."""

    def __init__(self, plan: Fabric, sockets: Mapping[int, socket], work: Work) -> None:
        super().__init__(plan.nodes[plan.scheduler], dict(enumerate(plan.nodes)), sockets)
        self._plan = plan
        self._planner = Planner(plan, work)
        self._ended: set[int] = set()

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:
        """All updates together.

        Raises:
            TrialTimeoutError: nothing moved for ``silence_s``; names the workers that are waited for.
            WorkerError: a process is gone, or told what cannot be.
        """
        self._until(lambda: self._ended == {*self._plan.workers}, silence_s)
        self._say(self._plan.server, End())  # first, for daemons that end close their connections with it
        self._until(lambda: self._plan.server in self._ended, silence_s)
        for node in self._plan.workers:
            self._say(node, End())
        self._over = True
        self._until(lambda: not self._sending(), silence_s)
        yield total

    def said(self) -> dict[str, Any]:
        """The order of the updates that were sent, and the transfers: from, to, bytes, numbers of the updates (none for
        weights), begin and end as planned, and when it was there, in seconds of this process's clock."""
        return {
            "order": self._planner.order,
            "momentum": self._planner.momentum,
            "transfers": [
                [
                    *(one.planned.source, one.planned.target, one.planned.size_bytes, one.planned.members),
                    *(one.planned.start_s, one.planned.end_s, one.arrived_s),
                ]
                for one in self._planner.traffic.moved
            ],
        }

    def barrier(self, timeout_s: float) -> None:
        """Return once every process of the trial has called this.

        Raises:
            TrialTimeoutError, WorkerError: as :meth:`serve`.
        """
        self._barriers += 1
        self._until(lambda: min(self.met.values()) >= self._barriers, timeout_s)
        for connection in self._connections:
            self._say_barrier(connection.node)
        self._until(lambda: not self._sending(), timeout_s)

    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        now_s, node = time.monotonic(), connection.node
        try:
            if isinstance(note, Ready):
                self._planner.ready(note.update, note.version, note.norm, now_s)
            elif isinstance(note, Arrived):
                self._planner.arrived(note.members, note.source, node, now_s)
            elif isinstance(note, Decided) and node == self._plan.server:
                self._planner.decided(note.entries, note.version, now_s)
            elif isinstance(note, End):
                self._ended.add(node)
            else:
                raise self._misfit(connection, note)
        except ValueError as error:
            raise self._misfit(connection, f"{note}: {error}") from error

    def _patience_s(self, timeout_s: float) -> float:
        return min(super()._patience_s(timeout_s), max(0.0, self._planner.next_s - time.monotonic()))

    def _move(self) -> bool:
        moved = super()._move()
        said = self._planner.tick(time.monotonic()) if not self._over else []
        for node, note in said:
            self._say(node, note)
        if said:
            super()._move()
        return moved or bool(said)

    def _awaited(self) -> str:
        silent = sorted({*self._plan.workers, self._plan.server} - self._ended)
        return f"for {', '.join(self._plan.nodes[node] for node in silent)}"


def goodput_of(sock: socket) -> float:
    """Share of a link's rate that payload gets, given the segments that a connection is cut into."""
    segment_bytes = sock.getsockopt(IPPROTO_TCP, TCP_MAXSEG)
    return goodput(segment_bytes + HEADERS_BYTES - 14)
