"""Parts of the kind: the operators, weights and losses that each server has, the messages of an iteration, and an
iteration in theory and in simulated time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads.job import Replay, Training
from testbed.workloads.kinds.asked import Stage
from testbed.workloads.kinds.forest.kind import count
from testbed.workloads.kinds.hybrid.plan import Plan
from testbed.workloads.kinds.hybrid.program.layout import collected, held_floats
from testbed.workloads.kinds.hybrid.program.steps import Agenda, Step, flop_per_s, step_s
from testbed.workloads.kinds.hybrid.program.steps import Message as Tensor
from testbed.workloads.kinds.parts import ModelParallel, Predictor, Simulation, Table
from testbed.workloads.parallel.network import Network
from testbed.workloads.parallel.prediction import Machine, Prediction, predict, stages
from testbed.workloads.play.steps import BACKWARD, FORWARD, Steps
from testbed.workloads.play.synchronisation import Synchronisation, synchronisation
from testbed.workloads.sync.chunks import ChunkTable, cut
from testbed.workloads.sync.messages import Message, Play, What

if TYPE_CHECKING:
    from testbed.workloads.job import WorkerJob
    from testbed.workloads.learning.buckets import Gradient
    from testbed.workloads.tasks.base import Participant

WAITS = ("mp_wait_forward_s", "mp_wait_backward_s")
"""Columns, by phase, of how long (s) a server had nothing to compute in an iteration for want of messages."""


class HeldOperators(ModelParallel[Plan]):
    """Operators that each server holds under a plan's strategy."""

    waits = WAITS

    def steps(self, plan: Plan) -> Steps:
        return passes(plan)

    def groups(self, plan: Plan) -> Mapping[tuple[int, ...], int]:
        return {members: stop - start for members, (start, stop) in plan.layout.groups.items()}

    def paces(self, plan: Plan) -> Sequence[float]:
        return plan.paces

    def take_part(self, job: WorkerJob, rank: int) -> Participant:
        from testbed.workloads.kinds.hybrid.worker import Replayer, plan_of

        if isinstance(job.training, Replay):
            return Replayer.of_job(job, rank)
        from testbed.workloads.kinds.hybrid.trainer import Trainer  # which needs PyTorch

        assert isinstance(job.training, Training)
        return Trainer(job.training, plan_of(job), rank)

    def losing(self, plan: Plan) -> Sequence[int]:
        ends = [place for place, consumers in enumerate(plan.model.consumers) if not consumers]
        return sorted({server for place in ends for server in plan.strategy.holders[place]})

    def held(self, plan: Plan) -> Sequence[int]:
        return [held_floats(plan.model, plan.strategy, server) for server in range(len(plan.workers))]

    def collected(self, plan: Plan, parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        together = collected(plan.model, plan.strategy, parts)
        if together.differing:
            name, *differing = together.differing[0]
            first, second = (plan.nodes[plan.workers[server]] for server in differing)
            raise WorkerError(
                f"the weights of operator {name} differ on {first} and {second}",
                fix="the scheme did not give every server that holds it the same sum; read its code",
            )
        return together.weights


MOMENT_S = 1e-6
"""Pace that takes no time, for a prediction that divides by it."""
MOST_BYTES = 1e18
"""Memory of a server for a prediction: a strategy that does not fit is refused earlier."""


class StrategyPredictor(Predictor[Plan]):
    """The time of an iteration as :mod:`testbed.workloads.parallel.prediction` has it."""

    def iteration_s(self, plan: Plan, topology: Topology, pace_s: float, goodput: float) -> float:
        return _predicted(plan, topology, pace_s, goodput).iteration_s

    def critical_path(self, plan: Plan, topology: Topology, pace_s: float, goodput: float) -> Sequence[Stage]:
        path = stages(_predicted(plan, topology, pace_s, goodput).critical_path)
        return [Stage(stage.what, stage.where, stage.start_s, stage.end_s) for stage in path]


def _predicted(plan: Plan, topology: Topology, pace_s: float, goodput: float) -> Prediction:
    machine = Machine(flop_per_s(plan.model, max(pace_s, MOMENT_S)), memory_bytes=MOST_BYTES, overlaps=False)
    own = Part(topology, plan.workers).topology
    return predict(plan.model, plan.strategy, Network(own, plan.rings, goodput), machine)


PHASES = {"forward": FORWARD, "backward": BACKWARD}


class HybridSimulation(Simulation[Plan]):
    """Decisions of servers about their passes (:class:`.program.steps.Agenda`), and of the engine."""

    message_s = 5e-5
    """30 to 70 us with 128 hosts."""

    def knows(self, plan: Plan) -> bool:
        return True

    def messages(self, plan: Plan, chunks: tuple[Gradient, int]) -> int:
        return len(plan.messages) + count(plan.forest, chunks)

    def synchronisation(self, plan: Plan, chunks: tuple[Gradient, int]) -> Synchronisation:
        gradient, chunk_bytes = chunks
        table = cut(plan.forest, gradient.floats, gradient.buckets, chunk_bytes)
        return synchronisation(plan.forest, table, passes(plan))

    def iteration(self, waited_s: tuple[float, ...]) -> Mapping[str, Any]:
        return {"mp_wait_forward_s": waited_s[FORWARD], "mp_wait_backward_s": waited_s[BACKWARD], "late_s": 0.0}

    def done(self, sent_bytes: Mapping[int, int]) -> Mapping[str, Any]:
        return {"payload_bytes": {str(node): sent for node, sent in sent_bytes.items()}}


def passes(plan: Plan) -> Steps:
    """Make the tables of the steps of all servers."""
    every = [(rank, step) for rank, own in enumerate(plan.steps) for step in own]
    taker = {message.number: at for at, (_, step) in enumerate(every) for message in step.needs}
    given = [(at, message) for at, (_, step) in enumerate(every) for message in step.gives]
    backward = {(rank, step.place): at for at, (rank, step) in enumerate(every) if step.phase == "backward"}
    then = [backward[rank, step.place] if step.ends and step.phase == "forward" else -1 for rank, step in every]
    return Steps(
        rank=np.array([rank for rank, _ in every], np.int32),
        phase=np.array([PHASES[step.phase] for _, step in every], np.int32),
        share=np.array([step_s(plan.model, step, 1.0) for _, step in every]),
        then=np.array(then, np.int32),
        giver=np.array([at for at, _ in given], np.int32),
        taker=np.array([taker[message.number] for _, message in given], np.int32),
        message_bytes=np.array([message.bytes for _, message in given], float),
    )


class HybridTable(Table[Plan]):
    """Messages of servers whose passes take no time. A server begins its AllReduces when it has done all its passes."""

    def messages(self, plan: Plan, gradient: Gradient, chunk_bytes: int) -> Iterator[Message]:
        return messages(plan, cut(plan.forest, gradient.floats, gradient.buckets, chunk_bytes))


def messages(plan: Plan, chunks: ChunkTable) -> Iterator[Message]:
    """Yield the messages of an iteration, given the chunks of its AllReduces."""
    return _Play(plan, chunks).messages()


class _Play(Play):
    """The engine's decisions, and those of servers about their passes; tensors are numbered after chunks."""

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
    """Return, by number of each tensor that a server gives, those from others that must have come before."""
    given: dict[int, tuple[int, ...]] = {}
    forward: dict[int, set[int]] = {}
    for step in own:
        needed = set(forward.get(step.place, ()))
        for tensor in step.needs:
            needed.update(given[tensor.number] if tensor.is_local else (tensor.number,))
        forward.setdefault(step.place, needed)
        given.update(dict.fromkeys((tensor.number for tensor in step.gives), tuple(sorted(needed))))
    return given
