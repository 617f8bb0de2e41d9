"""A daemon's process: on a worker's host it sends the worker's updates, sums those of others, and passes weights on.

It does what the scheduler says and decides nothing. An update stays in the memory that it shares with the worker until
weights have come, so nothing is copied to be sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from socket import socket

import numpy as np

from testbed.base.errors import WorkerError
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.fabric.processes.exchange import Exchange, Floats
from workloads.kinds.fabric.processes.messages import (
    Arrived,
    End,
    Gather,
    Given,
    Gradient,
    Note,
    Push,
    Ready,
    Send,
    SendSums,
    Weights,
)
from workloads.kinds.fabric.processes.shared import Memory
from workloads.kinds.fabric.sums import Sums
from workloads.sync.connection import Connection
from workloads.sync.tcp_info import Sent, sent


class _Group:
    """Updates that are summed here: what was told of them, what has come, and whether their sum may leave."""

    def __init__(self, note: Gather, floats: int, momentum: float) -> None:
        self.note = note
        self.go: SendSums | None = None
        self.sums = Sums(note.shares, floats, momentum)
        self.versions: dict[int, int] = {}


class Daemon(Exchange):
    """Sends, sums and passes on."""

    def __init__(
        self,
        plan: Fabric,
        node: int,
        sockets: Mapping[int, socket],
        worker: socket,
        memory: Memory,
        momentum: float,
    ) -> None:
        names = dict(enumerate(plan.nodes))
        super().__init__(f"{names[node]}.daemon", names, {**sockets, node: worker})
        self._plan, self._node, self._memory, self._momentum = plan, node, memory, momentum
        self._rank = plan.workers.index(node)
        self._pushed: Push | None = None
        self._groups: dict[int, _Group] = {}
        self._early: dict[int, list[tuple[Gradient, Floats]]] = {}
        self._goes_on, self._has_ended = True, False

    # What it tells of its connections is about those with other hosts.

    @property
    def _wires(self) -> Sequence[Connection]:
        return [connection for connection in self._connections if connection.node != self._node]

    @property
    def congestion_control(self) -> str:
        names = {_congestion_control(connection.sock) for connection in self._wires}
        return " ".join(sorted(names))

    @property
    def wire_bytes(self) -> int:
        return sum(connection.sent_bytes for connection in self._wires)

    @property
    def sent(self) -> dict[int, Sent]:
        return {connection.node: sent(connection.sock) for connection in self._wires}

    def serve(self, buckets: int, done: int, total: int, silence_s: float) -> Iterator[int]:
        """Until nobody has anything left to do.

        Raises:
            TrialTimeoutError: nothing moved for ``silence_s``.
            WorkerError: a process is gone, or sent what it cannot have.
        """
        self._until(lambda: not self._goes_on and not self._sending(), silence_s)
        self._say(self._plan.scheduler, End())
        self._has_ended = True
        self._until(lambda: self._over and not self._sending(), silence_s)
        yield total

    def barrier(self, timeout_s: float) -> None:
        """Return once every process of the trial has called this; the worker first.

        Raises:
            TrialTimeoutError, WorkerError: as :meth:`serve`.
        """
        self._barriers += 1
        self._until(lambda: self.met[self._node] >= self._barriers, timeout_s)
        self._say_barrier(self._plan.scheduler)
        self._until(lambda: self.met[self._plan.scheduler] == self._barriers, timeout_s)
        self._say_barrier(self._node)
        self._until(lambda: not self._sending(), timeout_s)

    def _waits_for(self, connection: Connection) -> bool:
        """Once it has nothing left to do itself, others may end: the scheduler lets them when nobody has."""
        if connection.node == self._plan.scheduler:
            return not self._over
        return self._goes_on if connection.node == self._node else not self._has_ended

    def _room(self, connection: Connection, note: Note) -> Floats | None:
        floats = len(self._memory.weights)
        if isinstance(note, Weights):
            return np.empty(floats, np.float32) if note.onward else self._memory.weights
        return np.empty(floats, np.float32) if isinstance(note, Gradient) else None

    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        from_scheduler = connection.node == self._plan.scheduler
        if isinstance(note, Push) and connection.node == self._node:
            self._take_update(note)
        elif isinstance(note, Send) and from_scheduler:
            self._at(time.monotonic() + note.wait_s, partial(self._send, connection, note))
        elif isinstance(note, Gather) and from_scheduler:
            self._gather(note)
        elif isinstance(note, SendSums) and from_scheduler:
            self._at(time.monotonic() + note.wait_s, partial(self._let_go, connection, note))
        elif isinstance(note, Gradient) and floats is not None:
            self._say(self._plan.scheduler, Arrived(note.members, connection.node))
            self._collect(note, floats)
        elif isinstance(note, Weights) and floats is not None:
            self._say(self._plan.scheduler, Arrived((), connection.node))
            self._take_weights(note, floats)
        elif isinstance(note, End) and from_scheduler:
            self._over = True
        else:
            raise self._misfit(connection, note)

    # Its worker's updates.

    def _take_update(self, note: Push) -> None:
        """The worker has an update."""
        self._pushed = note
        self._say(self._plan.scheduler, Ready(self._number(note), note.version, note.norm))

    def _number(self, note: Push) -> int:
        return note.iteration * len(self._plan.workers) + self._rank

    def _send(self, connection: Connection, note: Send) -> None:
        """The update's time has come."""
        if self._pushed is None or self._number(self._pushed) != note.update:
            raise self._misfit(connection, f"{note}, and the worker has {self._pushed}")
        told = Gradient((note.update,), (self._pushed.version,), ((1.0, 1.0),), note.group, 1)
        if note.target == self._node:
            self._collect(told, self._memory.update)
        else:
            self._pace(note.target, note.rate_bps)
            self._say(note.target, told, self._memory.update)

    # Sums.

    def _gather(self, note: Gather) -> None:
        self._groups[note.group] = _Group(note, len(self._memory.update), self._momentum)
        for told, floats in self._early.pop(note.group, []):
            self._collect(told, floats)

    def _collect(self, note: Gradient, floats: Floats) -> None:
        """An update is here that is to be summed; maybe before the scheduler has said so."""
        group = self._groups.get(note.group)
        if group is None:
            self._early.setdefault(note.group, []).append((note, floats))
            return
        (number,), (version,) = note.members, note.versions
        try:
            group.sums.add(group.note.members.index(number), floats)
        except ValueError as error:
            raise WorkerError(
                f"{self._name} got update {number} for a group of {list(group.note.members)}: {error}",
                fix="report it: the protocol is broken",
            ) from error
        group.versions[number] = version
        self._send_sums(group)

    def _let_go(self, connection: Connection, note: SendSums) -> None:
        """The sum's time has come."""
        if note.group not in self._groups:
            raise self._misfit(connection, f"{note}, of which it has no updates")
        group = self._groups[note.group]
        group.go = note
        self._send_sums(group)

    def _send_sums(self, group: _Group) -> None:
        """If it is complete, and its time has come."""
        note = group.note
        if group.go is None or not group.sums.is_complete:
            return
        del self._groups[note.group]
        versions = tuple(group.versions[number] for number in note.members)
        self._pace(note.target, group.go.rate_bps)
        told = Gradient(note.members, versions, note.shares, note.group, group.sums.count)
        self._say(note.target, told, group.sums.floats)

    # Weights.

    def _take_weights(self, note: Weights, floats: Floats) -> None:
        """Weights have come: for the worker here, for others, or for both."""
        recipients = {one[0]: one for one in note.recipients}
        for node, wait_s, rate_bps in note.onward:
            told = Weights(note.version, note.begin, note.begin_version, note.entries, (recipients[node],), ())
            self._at(time.monotonic() + wait_s, partial(self._pass_on, node, told, floats, rate_bps))
        if self._node in recipients:
            _, held_s, self._goes_on = recipients[self._node]
            if note.onward:
                np.copyto(self._memory.weights, floats)
            given = Given(note.version, note.begin, note.begin_version, note.entries, held_s, self._goes_on)
            self._say(self._node, given)

    def _pass_on(self, node: int, note: Weights, floats: Floats, rate_bps: float) -> None:
        self._pace(node, rate_bps)
        self._say(node, note, floats)

    def _sending(self) -> bool:
        return super()._sending() or bool(self._later)

    def _awaited(self) -> str:
        worker = self._plan.nodes[self._node]
        if self._pushed is None:
            return f"for the worker on {worker}, or the scheduler on {self._plan.nodes[self._plan.scheduler]}"
        return f"for weights, or the scheduler on {self._plan.nodes[self._plan.scheduler]}"


def _congestion_control(sock: socket) -> str:
    from socket import IPPROTO_TCP, TCP_CONGESTION

    return sock.getsockopt(IPPROTO_TCP, TCP_CONGESTION, 16).rstrip(b"\0").decode()
