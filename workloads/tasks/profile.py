"""A published model's gradient played back, and every sum checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from testbed.workloads import kinds
from testbed.workloads.job import Replay, WorkerJob
from testbed.workloads.kinds.base import AnyKind
from testbed.workloads.learning.parts import Span
from testbed.workloads.learning.replay import Checked, Player, Updates, Values
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.session import Session
from testbed.workloads.tasks.base import Floats, Notes, Participant, Release, Room

TASK = Replay
SKETCHED = False


def take_part(job: WorkerJob, rank: int, kind: AnyKind) -> Replayer:
    """Make a worker with the values of its rank."""
    return Replayer(job, rank, kind)


def served(job: WorkerJob, span: Span) -> tuple[Floats, Callable[[Floats], None]]:  # noqa: ARG001 - any job's are zeros
    """Make the weights of a server, and the function that adds gradients to them."""
    start, stop = span
    total: Floats = np.zeros(stop - start, np.float32)
    return total, partial(np.add, total, out=total)


def stepped(job: WorkerJob, spans: Sequence[Span], room: Room) -> list[tuple[Floats, Callable[[Floats], None]]]:  # noqa: ARG001
    """Make zeros for each span, and the function that puts a sum in their place."""
    return [(sums := room(stop - start), partial(np.copyto, sums)) for start, stop in spans]


def _values(job: WorkerJob, rank: int, kind: AnyKind) -> Values:
    """Make a rank's gradients, and the sums that they must become."""
    floats, work = job.buckets[-1][1], job.training
    assert isinstance(work, Replay)
    if not kind.sums_together:
        return Updates(floats, work.seed, rank, job.world)
    parts = () if kind.groups is None else kind.groups.summed(kinds.load(Path(job.forest)), job)
    return Values(floats, work.seed, rank, job.world, work.tolerance, parts)


class Replayer(Participant):
    """A worker that plays a profile back."""

    def __init__(self, job: WorkerJob, rank: int, kind: AnyKind) -> None:
        self._kind, self._sums = kind, Checked()
        self._values = _values(job, rank, kind)

    @property
    def gradient(self) -> Floats:  # type: ignore[override]
        return self._values.gradient

    @property
    def weights(self) -> Floats:  # type: ignore[override]
        return self._values.received

    def join(self, job: WorkerJob, completed: int, names: Sequence[str]) -> None:  # noqa: ARG002
        """Make new values after a death: ranks, and the sums that they must get, are others then."""
        if job.failover and job.failover.generation:
            assert job.rank is not None
            self._values = _values(job, job.rank, self._kind)

    def learn(self, updates: Sequence[tuple[int, int]], span: Span) -> None:
        self._values.learn(updates, span)

    def go(self, job: WorkerJob, session: Session, notes: Notes) -> None:
        assert isinstance(job.training, Replay)
        release = Release(job, session, notes)
        player = Player(job.training, job.compute, self._values, release, self._sums)
        wait = time.sleep if job.overlap == "none" else session.poll
        last = job.training.iterations - 1
        session.barrier(job.timeout_s)
        notes.begin()
        for i in session.iterations(notes.completed, job.training.iterations):
            self.keeper(job).after(i)
            start_s = player.start_s()
            computed = player.run(i, start_s, wait)
            if job.overlap == "both" and i < last:
                assert isinstance(session, Engine)  # a kind whose sessions cannot do this refuses it
                player.forward(i + 1, session, job.silence_s)
            sum_s = session.wait(job.silence_s)
            used = release.meter.now().since(release.ready)
            notes.iteration(job, session, i, (start_s, release.ready.time_s, sum_s, time.monotonic()), computed, used)
        player.check(notes.completed - 1)

    def result(self) -> dict[str, Any]:
        """Report how many sums were looked at, and by iteration how many elements were wrong."""
        return {"wrong": [[i, count] for i, count in self._sums.wrong.items()], "checked": self._sums.count}
