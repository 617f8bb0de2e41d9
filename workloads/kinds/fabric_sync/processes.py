"""What differs where the server makes sums: it applies nothing, and a worker gets the sum of all gradients."""

from __future__ import annotations

from collections.abc import Mapping
from socket import socket
from typing import Any

import numpy as np

from workloads.kinds.fabric.journal import Step
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.fabric.processes.client import Client
from workloads.kinds.fabric.processes.exchange import Floats
from workloads.kinds.fabric.processes.messages import Decided
from workloads.kinds.fabric.processes.server import Server, State
from workloads.sync.session import Model


class SumsClient(Client):
    """A worker's side: after :meth:`wait` its gradient holds the sum."""

    leaves_sums = True

    @property
    def seen(self) -> Mapping[str, Any]:
        return {}

    def step(self, model: Model, world: int) -> None:
        """The worker's own optimiser takes the step."""
        model.step(world)


class SumsServer(Server):
    """Adds gradients up, a round at a time. It tells what became of a round's gradients once it has all of them, and
    gives that sum until the next one is whole: the next gradients may come before the last worker is given it."""

    def __init__(self, plan: Fabric, sockets: Mapping[int, socket], floats: int) -> None:
        self._total: Floats = np.zeros(floats, np.float32)
        super().__init__(plan, sockets, self._total, self._add)
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
