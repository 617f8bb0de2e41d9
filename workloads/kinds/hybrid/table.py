"""Messages of an iteration of hybrid training: boundary tensors between operators, and then AllReduces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from testbed.workloads.kinds.hybrid.plan import Plan
from testbed.workloads.kinds.hybrid.program.agenda import Agenda
from testbed.workloads.kinds.hybrid.program.cut import Message as Tensor
from testbed.workloads.kinds.hybrid.program.cut import Step
from testbed.workloads.kinds.parts import Table
from testbed.workloads.sync.chunks import ChunkTable, cut
from testbed.workloads.sync.messages import Message, Play, What

if TYPE_CHECKING:
    from testbed.workloads.learning.buckets import Gradient


class HybridTable(Table[Plan]):
    """Messages of servers whose passes take no time. A server begins its AllReduces when it has done all its passes."""

    def messages(self, plan: Plan, gradient: Gradient, chunk_bytes: int) -> Iterator[Message]:
        return messages(plan, cut(plan.forest, gradient.floats, gradient.buckets, chunk_bytes))


def messages(plan: Plan, chunks: ChunkTable) -> Iterator[Message]:
    """Yield the messages of an iteration, given the chunks of its AllReduces."""
    return _Play(plan, chunks).messages()


class _Play(Play):
    """The engine's decisions, and those of servers about their passes; numbers of tensors come after those of
    chunks."""

    def __init__(self, plan: Plan, chunks: ChunkTable) -> None:
        super().__init__(plan.forest, chunks)
        self._plan, self._server = plan, {node: rank for rank, node in enumerate(plan.workers)}
        self._base = self._number(len(self._chunks.klass), 0, "up")
        self._agendas = {node: Agenda(plan.steps[rank]) for node, rank in self._server.items()}
        self._needed = {number: needed for own in plan.steps for number, needed in _needed(own).items()}
        self._owed: dict[int, tuple[int, ...]] = dict.fromkeys(plan.workers, ())
        for one in plan.messages:
            if not one.is_local:
                self._owed[plan.workers[one.dst]] += (self._base + one.number,)
        self._steps: dict[int, int] = {}
        self._early: dict[int, list[Message]] = {node: [] for node in plan.workers}
        """Chunks that came to a server before it began its AllReduces."""

    def begin(self, node: int) -> None:
        if node in self._server:
            self._agendas[node].begin(0.0)
            self._take_steps(node)
        else:
            super().begin(node)

    def arrived(self, message: Message) -> None:
        node = message.dst
        if message.what.klass < 0:
            self._agendas[node].arrived(message.what.chunk, 0.0)
            self._take_steps(node)
        elif node in self._early:
            self._early[node].append(message)
        else:
            super().arrived(message)

    def needs(self, node: int) -> tuple[int, ...]:
        return self._owed.get(node, ())

    def _take_steps(self, node: int) -> None:
        agenda = self._agendas[node]
        while (ready := agenda.next()) is not None:
            self.queue(node, [self._tensor(one) for one in ready[0].gives if not one.is_local])
            agenda.done(ready[0], 0.0)
        if agenda.is_over and node in self._early:
            super().begin(node)
            for message in self._early.pop(node):
                super().arrived(message)

    def _tensor(self, one: Tensor) -> Message:
        needed = self._needed[one.number]
        step = self._steps[one.number] = 1 + max((self._steps[number] for number in needed), default=-1)
        ends = self._plan.workers[one.src], self._plan.workers[one.dst]
        after = tuple(self._base + number for number in needed)
        return Message(self._base + one.number, *ends, one.bytes, after, What(one.phase, -1, one.number, -1, step))


def _needed(own: tuple[Step, ...]) -> dict[int, tuple[int, ...]]:
    """Return, by number of each tensor that a server gives, the numbers of those from others that must have come
    before."""
    given: dict[int, tuple[int, ...]] = {}
    forward: dict[int, set[int]] = {}
    for step in own:
        needed = set(forward.get(step.place, ()))
        for tensor in step.needs:
            needed.update(given[tensor.number] if tensor.is_local else (tensor.number,))
        forward.setdefault(step.place, needed)
        given.update(dict.fromkeys((tensor.number for tensor in step.gives), tuple(sorted(needed))))
    return given
