"""A server of a hybrid trial: its part, and the engine between its neighbours. The part of a server that trains is in
:mod:`.trainer`."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.workloads import kinds
from testbed.workloads.job import Replay, WorkerJob
from testbed.workloads.kinds.hybrid.exchange import Buffers, ExchangeEngine
from testbed.workloads.kinds.hybrid.plan import Plan
from testbed.workloads.kinds.hybrid.player import Player, Work
from testbed.workloads.kinds.hybrid.values import KnownValues, MessageValues
from testbed.workloads.learning.compute import Computed
from testbed.workloads.learning.replay import Values
from testbed.workloads.sync import chunks, transport
from testbed.workloads.sync.groups import summed
from testbed.workloads.sync.session import Session
from testbed.workloads.tasks.base import Floats, Notes, Participant, Release


def plan_of(job: WorkerJob) -> Plan:
    """Load the job's plan."""
    found = kinds.load(Path(job.forest))
    assert isinstance(found, Plan)
    return found


def values(job: WorkerJob, plan: Plan, rank: int) -> Values:
    """Make the gradients of a rank, and the sums that its groups must get."""
    work, floats = job.training, plan.gradient_floats
    assert isinstance(work, Replay)
    table = chunks.cut(plan.forest, floats, job.buckets, job.chunk_bytes)
    return Values(floats, work.seed, rank, job.world, work.tolerance, summed(plan.forest, table))


class Part(Participant):
    """A server's part in a trial: the passes of its operators, whatever these compute.

    Attributes:
        buffers: where messages are sent from and received into.
    """

    buffers: Buffers

    def __init__(self, plan: Plan, work: Work) -> None:
        self._plan, self._work = plan, work

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
        player = Player(self._plan, job.rank, session, self._work, job.compute, job.silence_s)
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


class Replayer(Part):
    """A part that plays operators, with messages and gradients of known values."""

    def __init__(self, job: WorkerJob, rank: int) -> None:
        assert isinstance(job.training, Replay)
        plan = plan_of(job)
        messages = MessageValues(plan.messages, rank, job.training.seed)
        self._known = KnownValues(messages, values(job, plan, rank))
        super().__init__(plan, self._known)
        self.buffers = messages.buffers

    @property
    def gradient(self) -> Floats:  # type: ignore[override]
        return self._known.sums.gradient

    @property
    def weights(self) -> Floats:  # type: ignore[override]
        return self._known.sums.received

    def finish(self) -> None:
        self._known.finish()

    def result(self) -> dict[str, Any]:
        """Report how many sums were checked, and by iteration how many elements of sums and messages were wrong."""
        return {"wrong": [[i, count] for i, count in self._known.wrong.items()], "checked": self._known.checked}


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
