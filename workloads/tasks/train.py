"""Training: a real model on real data, whose gradients are summed before each step."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workloads import accelerated, failover, training
from workloads.compute import Accelerator
from workloads.job import Training, WorkerJob
from workloads.kinds.base import AnyKind
from workloads.sketch import Sketch
from workloads.sync.session import Session
from workloads.tasks.base import Floats, Notes, Participant, Release
from workloads.updates import Span

TASK = Training


def take_part(job: WorkerJob, rank: int, kind: AnyKind) -> Trainer:  # noqa: ARG001 - a gradient is the same for all kinds
    """A worker with a replica of the model."""
    return Trainer(job, rank)


def served(job: WorkerJob, span: Span) -> tuple[Floats, Callable[[Floats], None]]:
    """The weights of a server, and a step of SGD."""
    assert isinstance(job.training, Training)
    work = job.training
    training.use_one_thread()
    weights = training.first_weights(work)[slice(*span)].copy()
    velocity = np.zeros_like(weights)

    def step(gradient: Floats) -> None:
        training.descend(work, weights, velocity, gradient, job.world)

    return weights, step


class Trainer(Participant):
    """A worker that trains."""

    def __init__(self, job: WorkerJob, rank: int) -> None:
        assert isinstance(job.training, Training)
        training.use_one_thread()
        device = accelerated.device_for(job.compute, rank)
        self._replica = accelerated.replica_on(device, job.training, job.buckets)
        self.device = accelerated.name(device)
        self._own: dict[int, list[float]] = {}
        self._summed: dict[int, list[float]] = {}

    @property
    def gradient(self) -> Floats:  # type: ignore[override]
        return self._replica.gradient

    @property
    def weights(self) -> Floats:  # type: ignore[override]
        return self._replica.weights

    def join(self, job: WorkerJob, completed: int, names: Sequence[str]) -> None:
        """Take the weights of those who have done more, or give them to those who have done less."""
        self._replica.shift = job.failover.shift if job.failover else 0
        failover.catch_up(job, self._replica, completed, names)

    def go(self, job: WorkerJob, session: Session, notes: Notes) -> None:
        assert job.rank is not None
        replica, release = self._replica, Release(job, session, notes)
        layered, once = job.overlap == "layer", job.compute.mode == "none"
        sketches = _Sketches(self, replica, sums=job.rank == 0, wanted=session.leaves_sums)
        accelerator = Accelerator(replica, job.compute, job.rank, job.world, layered, release, session.poll)
        session.barrier(job.timeout_s)
        notes.begin()
        sum_s = None
        for i in session.iterations(notes.completed, job.training.iterations):
            start_s = time.monotonic()
            if not once:
                sketches.look_at_sum()
            computed = accelerator.run(i, start_s, sum_s)
            sum_s = session.wait(job.silence_s)
            used = release.meter.now().since(release.ready)
            sketches.synchronised(i)
            if not once:
                session.step(replica, job.world)
            notes.iteration(job, session, i, (start_s, release.ready.time_s, sum_s, time.monotonic()), computed, used)
        sketches.look_at_sum()
        if once:
            replica.step(job.world)  # so that the weights tell whether the last sum was right

    def save(self, job: WorkerJob) -> None:
        """Rank 0 saves the weights."""
        self._replica.fetch()
        if job.weights is not None:
            np.save(job.weights, self._replica.weights)

    def result(self) -> dict[str, Any]:
        """The weights' digest, and sketches by iteration (:mod:`workloads.sketch`): of this worker's gradients and, of
        rank 0, of their sums."""
        return {
            "weights_sha256": hashlib.sha256(self._replica.weights.data).hexdigest(),
            "own": list(self._own.items()),
            "summed": list(self._summed.items()),
        }

    def note_own(self, iteration: int, sketch: list[float]) -> None:
        self._own[iteration] = sketch

    def note_sum(self, iteration: int, sketch: list[float]) -> None:
        self._summed[iteration] = sketch


class _Sketches:
    """Keeps those of a worker's gradients and, on rank 0, of the sums that became of them."""

    def __init__(self, trainer: Trainer, replica: training.Replica, *, sums: bool, wanted: bool) -> None:
        self._trainer, self._sums = trainer, sums
        self._last: int | None = None
        replica.sketch = self._sketch = Sketch(replica.gradient, replica.buckets) if wanted else None

    def synchronised(self, iteration: int) -> None:
        """The gradient holds the sum of this iteration's."""
        self._last = iteration
        if self._sketch:
            self._trainer.note_own(iteration, self._sketch.values())

    def look_at_sum(self) -> None:
        """Sketch the last sum, before the gradient is overwritten."""
        if self._sketch and self._sums and self._last is not None:
            self._trainer.note_sum(self._last, self._sketch.whole())
