"""All servers of a hybrid trial in one process, and the model that they cut.

Messages arrive, and servers go on, in a random order that sockets could have, too: those from one server to another
stay in turn. What arrives is read when it arrives, from where it is sent from, as a socket without copies would.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from testbed.workloads import models
from testbed.workloads.job import Training
from testbed.workloads.kinds.hybrid.program.server import Floats, Server
from testbed.workloads.kinds.hybrid.program.steps import Agenda, Message, Step
from testbed.workloads.learning import training
from testbed.workloads.models import dlrm_tiny
from testbed.workloads.models.operators import Dense, Operator, Table, build, head
from testbed.workloads.parallel import models as parallel
from testbed.workloads.parallel.operators import Model
from testbed.workloads.parallel.strategy import Strategy

_DIAMOND: tuple[Operator, ...] = (
    Table("e0", dlrm_tiny.FEATURES, dlrm_tiny.ROWS, 2),
    Dense("feature0", (), dlrm_tiny.FEATURES, 8),
    Dense("left0", ("feature0", "e0"), 10, 6),
    Dense("right0", ("feature0",), 8, 4),
    *head(("left0", "right0"), (10, 5, 2)),
)
"""Takes clicks. Two operators take one's output."""


def know_diamond(patch: pytest.MonkeyPatch) -> None:
    """Let ``diamond`` be a model for a while."""
    layers = tuple(operator.tensors for operator in _DIAMOND)
    net = models.Model("diamond", "", dlrm_tiny.INPUT_SHAPE, 2, layers, partial(build, _DIAMOND))
    patch.setitem(models.MODELS, "diamond", net)
    patch.setitem(parallel._BUILDERS, "diamond", partial(parallel._trained, "diamond", _DIAMOND, "all"))


def task(name: str, *, batch: int, iterations: int) -> Training:
    data = "responses" if name == "candle_tiny" else "clicks"
    return Training(name, data, batch, iterations, learning_rate=0.1, momentum=0.9, seed=5)


def single(asked: Training, servers: int, first: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights after PyTorch's own SGD of the mean loss over global batches, in gradient order."""
    net = training.network(asked)
    data = training.data_of(asked, net)
    module = net.build()
    module.load_state_dict(training.views(net.tensors(), torch.from_numpy(first.copy())), assign=True)
    descent = torch.optim.SGD(module.parameters(), asked.learning_rate, asked.momentum)
    for iteration in range(asked.iterations):
        size = servers * asked.batch
        positions = training.global_batch(asked.seed, iteration, size, len(data.train))
        samples, labels = data.select(data.train[positions])
        descent.zero_grad()
        cross_entropy(module(samples.to(torch.from_numpy(first).dtype)), labels).backward()  # type: ignore[no-untyped-call]
        descent.step()
    state = module.state_dict()
    return np.concatenate([state[name].numpy().ravel() for name, _ in net.tensors()])


@st.composite
def cuts(draw: st.DrawFn, model: Model) -> Strategy:
    """Any holders."""
    servers = draw(st.integers(1, 5))
    one = st.sets(st.integers(0, servers - 1), min_size=1).map(lambda found: tuple(sorted(found)))
    return Strategy(servers, tuple(draw(one) for _ in model.operators))


class InProcess:
    """
    Attributes:
        pair_bytes: int64[n, n], what was sent, by source and destination.
        losses: by iteration and server.
    """

    def __init__(self, asked: Training, strategy: Strategy, first: Floats, seed: int = 0) -> None:
        self.servers = [Server(asked, strategy, number, first) for number in range(strategy.servers)]
        self.pair_bytes = np.zeros((strategy.servers,) * 2, np.int64)
        self.losses: dict[tuple[int, int], float | None] = {}
        self._asked, self._strategy, self._draw = asked, strategy, Random(seed)
        self._agendas = [Agenda(server.steps) for server in self.servers]
        self._begun = [0] * strategy.servers
        self._wire: dict[tuple[int, int], deque[Message]] = {}
        self._with_gradient: list[set[int]] = [set() for _ in strategy.holders]
        self._descended: list[set[int]] = [set() for _ in self.servers]
        """By server, operators."""

    def run(self) -> None:
        ready: dict[int, Step] = {}
        while True:
            for server, agenda in enumerate(self._agendas):
                self._begin(server)
                if server not in ready and (step := agenda.next()):
                    ready[server] = step[0]
            possible: list[int | tuple[int, int]] = [*ready, *(pair for pair, queue in self._wire.items() if queue)]
            if not possible:
                break
            taken = self._draw.choice(possible)
            if isinstance(taken, int):
                self._take(taken, ready.pop(taken))
            else:
                self._deliver(self._wire[taken].popleft())
        assert all(agenda.is_over for agenda in self._agendas)
        assert self._begun == [self._asked.iterations] * len(self.servers)

    def _begin(self, server: int) -> None:
        held = {place for place, holders in enumerate(self._strategy.holders) if server in holders}
        over = self._agendas[server].is_over and (not self._begun[server] or self._descended[server] == held)
        if over and self._begun[server] < self._asked.iterations:
            self._descended[server].clear()
            self.servers[server].begin(self._begun[server])
            self._begun[server] += 1
            self._agendas[server].begin(0.0)

    def _take(self, server: int, step: Step) -> None:
        self.servers[server].compute(step)
        self.losses[self._begun[server] - 1, server] = self.servers[server].loss
        for message in step.gives:
            if not message.is_local:
                self._wire.setdefault((message.src, message.dst), deque()).append(message)
        self._agendas[server].done(step, 0.0)
        if step.phase == "backward":
            self._with_gradient[step.place].add(server)
            if self._with_gradient[step.place] == set(self._strategy.holders[step.place]):
                self._sum(step.place)

    def _deliver(self, message: Message) -> None:
        sent = self.servers[message.src].outgoing(message)
        room = self.servers[message.dst].incoming(message)
        assert sent.flags.c_contiguous
        assert room.flags.c_contiguous
        room[:] = sent
        self.pair_bytes[message.src, message.dst] += sent.nbytes
        self._agendas[message.dst].arrived(message.number, 0.0)

    def _sum(self, place: int) -> None:
        """The AllReduce of one operator, and the step that follows."""
        self._with_gradient[place].clear()
        holders = [self.servers[holder] for holder in self._strategy.holders[place]]
        span = slice(*holders[0].layout.operators[place])
        total = np.sum([holder.gradient[span] for holder in holders], axis=0)
        for number, holder in zip(self._strategy.holders[place], holders, strict=True):
            holder.gradient[span] = total
            holder.descend(place)
            self._descended[number].add(place)


def operators(asked: Training) -> Model:
    return replace(parallel.operators_of(asked.model), samples=asked.batch)
