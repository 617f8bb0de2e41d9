"""Processes where sums are made: unlike others, none applies updates, and a worker gets the sum of all gradients.

A server makes all sums, or in each iteration the daemon on the host of one of the workers, its root: a server that has
no connections of its own, and speaks through its daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from socket import socket
from typing import Any

import numpy as np

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.fabric.fates import FIX
from testbed.workloads.kinds.fabric.journal import Step
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.fabric.processes.daemon import Daemon
from testbed.workloads.kinds.fabric.processes.messages import Decided, Give, Gradient, Note, Order, Weights
from testbed.workloads.kinds.fabric.processes.server import Served, Server, State
from testbed.workloads.kinds.fabric.processes.shared import Memory
from testbed.workloads.kinds.fabric.processes.worker import Client
from testbed.workloads.serving.exchange import Floats
from testbed.workloads.sync.connection import Connection
from testbed.workloads.sync.session import Model


class SumsClient(Client):
    """A worker's side: after :meth:`wait` its gradient holds the sum."""

    leaves_sums = True

    @property
    def _model(self) -> Floats:
        return self._part.gradient

    @property
    def seen(self) -> Mapping[str, Any]:
        return {}

    def step(self, model: Model, world: int) -> None:
        """Do nothing to the gradient: the worker's own optimiser takes the step."""
        model.step(world)


class SumsServer(Server):
    """A server that adds gradients up, a round at a time. It reports the fates of a round's gradients once it has all
    of them, and gives that sum until the next one is whole: the next gradients may come before the last worker is given
    it."""

    def __init__(self, plan: Fabric, node: int, sockets: Mapping[int, socket], floats: int) -> None:
        self._total: Floats = np.zeros(floats, np.float32)
        super().__init__(plan, node, sockets, Served((self._total,), self._add))
        self._round: list[Step] = []

    def _add(self, gradient: Floats, is_sum: bool, count: int) -> None:
        if not self._round:
            self._total.fill(0)
        self._total += gradient

    def _report(self, step: Step) -> None:
        self._round.append(step)
        entries = [entry for one in self._round for entry in one.entries]
        if len(entries) == len(self._plan.workers):
            self._round = []
            self._newest = State(self._total.copy(), self.journal.version, len(self.journal.entries))
            self._say(self._plan.scheduler, Decided(tuple(entries), self.journal.version))

    def _state(self) -> State:
        return self._newest


@dataclass(frozen=True)
class Voice:
    """The functions through which a root uses its daemon's connections.

    Attributes:
        say: as :meth:`.exchange.Exchange._say`.
        pace: how fast it may send to a node (bit/s).
        at: what to do at which moment (``time.monotonic``).
    """

    say: Callable[[int, Note, Floats | None], None]
    pace: Callable[[int, float], None]
    at: Callable[[float, Callable[[], None]], None]


class Root(SumsServer):
    """Server for the iterations whose root its host is. Its journal has only these, while other processes count all
    iterations: it translates versions and numbers of entries for them."""

    def __init__(self, plan: Fabric, node: int, floats: int, voice: Voice) -> None:
        super().__init__(plan, node, {}, floats)
        self._voice = voice

    def hear(self, connection: Connection, note: Note) -> None:
        """Take a note of the scheduler to the server's part.

        Raises:
            WorkerError: it cannot be.
        """
        self._came(connection, note, None)

    def take(self, source: int, note: Gradient, floats: Floats) -> None:
        """Take a gradient, or a sum, that has come from a node, which may be this one; the scheduler knows of it.

        Raises:
            WorkerError: a part of it was here before.
        """
        try:
            self._hold(source, note, floats)
        except ValueError as error:
            raise WorkerError(f"{self._name} got {note}: {error}", fix=FIX) from error

    def _say(self, node: int, note: Note, floats: Floats | None = None) -> None:
        if isinstance(note, Decided | Weights):
            world = len(self._plan.workers)
            first = note.entries[0][0] // world * world
            note = replace(note, version=first + world)
            if isinstance(note, Weights):
                note = replace(note, begin=first, begin_version=first)
        self._voice.say(node, note, floats)

    def _pace(self, node: int, rate_bps: float) -> None:
        self._voice.pace(node, rate_bps)

    def _at(self, due_s: float, action: Callable[[], None]) -> None:
        self._voice.at(due_s, action)


class RootDaemon(Daemon):
    """A daemon that may be an iteration's root."""

    def __init__(self, plan: Fabric, node: int, sockets: Mapping[int, socket], worker: socket, memory: Memory) -> None:
        super().__init__(plan, node, sockets, worker, memory, momentum=0.0)
        self._root = Root(plan, node, len(memory.weights), Voice(self._say_or_give, self._pace_others, self._at))

    def said(self) -> dict[str, Any]:
        """Report as :meth:`.server.Server.said`, on the iterations whose root it was."""
        return self._root.said()

    def close(self) -> None:
        self._root.close()
        super().close()

    def _came(self, connection: Connection, note: Note, floats: Floats | None) -> None:
        if isinstance(note, Order | Give):
            self._root.hear(connection, note)
        else:
            super()._came(connection, note, floats)

    def _is_root_of(self, note: Gradient) -> bool:
        return self._node in self._plan.servers_at(note.members[0] // len(self._plan.workers))

    def _fits(self, note: Gradient) -> bool:
        """Whether a root, or an aggregator, may get this: a root gets sums of others, too."""
        if not note.members or note.members[0] < 0:
            return False
        if not self._is_root_of(note):
            return super()._fits(note)
        return note.sums == 1 and len(note.members) == len(note.versions)

    def _collect(self, source: int, note: Gradient, floats: Floats) -> None:
        if self._is_root_of(note):
            self._root.take(source, note, floats)
        else:
            super()._collect(source, note, floats)

    def _say_or_give(self, node: int, note: Note, floats: Floats | None) -> None:
        """Send a note to another node, or give the sum to the worker here."""
        if node == self._node and isinstance(note, Weights) and floats is not None:
            np.copyto(self._memory.weights, floats)
            self._take_weights(self._by_node[node], note, floats)
        else:
            self._say(node, note, floats)

    def _pace_others(self, node: int, rate_bps: float) -> None:
        if node != self._node:
            self._pace(node, rate_bps)
