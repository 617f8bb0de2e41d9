"""A server of a hybrid trial: its part, and the engine between its neighbours. The part of a server that trains is in
:mod:`.trainer`.

A server that plays a profile has messages of known values: they are made before they leave, and checked when they
arrive, element by element. As in :mod:`testbed.workloads.learning.replay` they are pieces of one random sequence, which
begin at another place for each message and each iteration, so that what is left over from another one is wrong in about
fifteen of sixteen elements.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from testbed.workloads import kinds
from testbed.workloads.job import LARGEST, Replay, WorkerJob
from testbed.workloads.kinds.hybrid.exchange import Buffers, ExchangeEngine
from testbed.workloads.kinds.hybrid.plan import Plan
from testbed.workloads.kinds.hybrid.player import Player, Work
from testbed.workloads.kinds.hybrid.program.steps import Message, Step
from testbed.workloads.learning.compute import Computed
from testbed.workloads.learning.replay import PERIOD, Values
from testbed.workloads.parallel.operators import FLOAT_BYTES
from testbed.workloads.sync import chunks, transport
from testbed.workloads.sync.groups import summed
from testbed.workloads.sync.session import Session
from testbed.workloads.tasks.base import Floats, Notes, Participant, Release


def plan_of(job: WorkerJob) -> Plan:
    """Load the job's plan."""
    found = kinds.load(Path(job.forest))
    assert isinstance(found, Plan)
    return found


class Part(Participant, Work):
    """A server's part in a trial: the passes of its operators, whatever these compute. Messages are sent from
    ``buffers`` and received into them."""

    buffers: Buffers

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @property
    def loss(self) -> float | None:
        """Loss of this iteration; None where this server computes none."""
        return None

    @abstractmethod
    def finish(self) -> None:
        """End the training: do after the last iteration what the next one would begin with."""

    def go(self, job: WorkerJob, session: Session, notes: Notes) -> None:
        assert isinstance(session, ExchangeEngine)
        release = Release(job, session, notes)
        assert job.rank is not None  # each server is a worker
        player = Player(self._plan, job.rank, session, self, job.compute, job.silence_s)
        session.barrier(job.timeout_s)
        notes.begin()
        for i in session.iterations(notes.completed, job.training.iterations):
            self.keeper(job).after(i)
            played = player.iteration(i, release)
            session.saw(played.mp_wait_s, played.late_s)
            computed = Computed(self.loss, played.compute_s, played.overrun_s, *job.compute.slowdown(i))
            used = release.meter.now().since(release.ready)
            moments = (played.start_s, release.ready.time_s, played.sum_s, time.monotonic())
            notes.iteration(job, session, i, moments, computed, used)
        self.finish()


class MessageValues:
    """The messages of one server, sent from ``buffers`` and received into them; ``checked`` elements were looked at, of
    which ``wrong`` were wrong."""

    def __init__(self, every: Sequence[Message], server: int, seed: int) -> None:
        longest = max((one.bytes // FLOAT_BYTES for one in every), default=0)
        size = longest + PERIOD * (len(every) + 1)  # enough for the last message's last iteration
        self._sequence = np.random.default_rng(seed).integers(-LARGEST, LARGEST, size, dtype=np.int8)
        self.buffers = Buffers(
            {one.number: (one.dst, _room(one)) for one in every if one.src == server and not one.is_local},
            {one.number: (one.src, _room(one)) for one in every if one.dst == server and not one.is_local},
        )
        self.checked = self.wrong = 0
        self._seen = dict.fromkeys(self.buffers.incoming, 0)

    def make(self, number: int, iteration: int) -> None:
        """Write the message of an iteration, which is about to leave."""
        _, buffer = self.buffers.outgoing[number]
        buffer[:] = self._piece(number, iteration, len(buffer))

    def check(self, number: int) -> None:
        """Count the wrong elements of a message that has arrived: at the first call those of iteration 0, and so on."""
        _, buffer = self.buffers.incoming[number]
        right = self._piece(number, self._seen[number], len(buffer))
        self._seen[number] += 1
        self.checked += len(buffer)
        self.wrong += int(np.count_nonzero(buffer != right))

    def _piece(self, number: int, iteration: int, floats: int) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
        begin = PERIOD * number + iteration % PERIOD
        return self._sequence[begin : begin + floats]


def _room(message: Message) -> Floats:
    """Make room for a message, written to now: the kernel gives memory at the first write."""
    return np.full(message.bytes // FLOAT_BYTES, 0.0, np.float32)


class Replayer(Part):
    """A part that plays operators, with messages and gradients of known values; ``checked`` sums were looked at, and
    ``wrong`` has, by iteration, how many elements of sums and messages were wrong, where any were."""

    def __init__(self, plan: Plan, messages: MessageValues, sums: Values) -> None:
        """Set up; ``sums`` are the gradients, with what their groups' sums must be."""
        super().__init__(plan)
        self.messages, self.buffers, self._sums = messages, messages.buffers, sums
        self.gradient, self.weights = sums.gradient, sums.received
        self.checked = 0
        self.wrong: dict[int, int] = {}
        self._iteration = self._before = -1
        self._wrong_messages = 0
        """Elements of messages of the iteration before."""

    @classmethod
    def of_job(cls, job: WorkerJob, rank: int) -> Replayer:
        """Make the part of a rank in a job."""
        plan, work = plan_of(job), job.training
        assert isinstance(work, Replay)
        floats = plan.gradient_floats
        parts = summed(plan.forest, chunks.cut(plan.forest, floats, job.buckets, job.chunk_bytes))
        sums = Values(floats, work.seed, rank, job.world, work.tolerance, parts)
        return cls(plan, MessageValues(plan.messages, rank, work.seed), sums)

    def begin(self, iteration: int) -> None:
        self._before, self._iteration = self._iteration, iteration
        self._wrong_messages, self.messages.wrong = self.messages.wrong, 0

    def before_sums(self) -> Iterator[None]:
        """Check the sum of the iteration before, and make this one's gradient."""
        yield from self._check(self._before)
        yield from self._sums.filling(self._iteration)

    def received(self, number: int) -> None:
        self.messages.check(number)

    def compute(self, step: Step) -> None:
        for message in step.gives:
            if not message.is_local:
                self.messages.make(message.number, self._iteration)

    def finish(self) -> None:
        """Check the sum of the last iteration."""
        self._wrong_messages = self.messages.wrong
        for _ in self._check(self._iteration):
            pass

    def _check(self, iteration: int) -> Iterator[None]:
        """Count the wrong elements of an iteration's sum, and of its messages."""
        if iteration < 0:
            return
        count = self._wrong_messages
        for differ in self._sums.looking(iteration):
            count += differ
            yield
        self.checked += 1
        if count:
            self.wrong[iteration] = count

    def result(self) -> dict[str, Any]:
        """Report how many sums were checked, and by iteration how many elements of sums and messages were wrong."""
        return {"wrong": [[i, count] for i, count in self.wrong.items()], "checked": self.checked}


def join(job: WorkerJob, plan: Plan, part: Part, called_off: Callable[[], None]) -> ExchangeEngine:
    """Meet the neighbours; ``called_off`` is as in :func:`testbed.workloads.sync.transport.connect_all`.

    Raises:
        TrialTimeoutError, WorkerError: one of them did not come.
        PrivilegeError: the kernel refuses the congestion control.
    """
    table = chunks.cut(plan.forest, plan.gradient_floats, job.buckets, job.chunk_bytes)
    sockets = transport.connect_all(
        job.node, job.peers, plan.nodes, job.congestion_control, job.start_timeout_s, called_off
    )
    buffers = part.buffers.between(plan.workers)
    engine = ExchangeEngine(job.node, plan.forest, table, sockets, part.gradient, buffers)
    if job.gate is not None:
        engine.wait_at(job.gate, job.node, len(plan.nodes))
    return engine
