"""Training: a real model on real data, whose gradients are summed before each step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from testbed.workloads import failover
from testbed.workloads.job import Task, Training, WorkerJob
from testbed.workloads.kinds.base import AnyKind
from testbed.workloads.learning import accelerated, reference, training
from testbed.workloads.learning.parts import Span
from testbed.workloads.learning.sketch import Sketch
from testbed.workloads.learning.updates import Step, Update
from testbed.workloads.sync.session import Session
from testbed.workloads.tasks.base import Floats, Learner, Onlooker, Room

TASK = Training
SKETCHED = True


def take_part(job: WorkerJob, rank: int, kind: AnyKind) -> Trainer:  # noqa: ARG001 - a gradient is the same for all kinds
    """Make a worker with a replica of the model."""
    return Trainer(job, rank)


def expect(works: Collection[Task]) -> None:
    """Make what workers share, as :func:`testbed.workloads.learning.training.expect` does."""
    training.expect([work for work in works if isinstance(work, Training)])


def served(job: WorkerJob, span: Span) -> tuple[Floats, Callable[[Floats], None]]:
    """Make the weights of a server, and a step of SGD on them."""
    (found,) = stepped(job, [span], lambda count: np.zeros(count, np.float32))
    return found


def stepped(job: WorkerJob, spans: Sequence[Span], room: Room) -> list[tuple[Floats, Callable[[Floats], None]]]:
    """Make the weights of each span, and a step with the sum of all workers' gradients on them."""
    assert isinstance(job.training, Training)
    training.use_one_thread()
    first = training.first_weights(job.training)
    parts = [(room(stop - start), room(stop - start)) for start, stop in spans]
    for (weights, _), span in zip(parts, spans, strict=True):
        np.copyto(weights, first[slice(*span)])
    return [(weights, Descent(job.training, weights, job.world, velocity)) for weights, velocity in parts]


class Descent:
    """Steps of SGD, of one gradient each or of several together."""

    def __init__(self, work: Training, weights: Floats, world: int, velocity: Floats | None = None) -> None:
        self._work, self.weights, self._world = work, weights, world
        self.velocity: Floats = np.zeros_like(weights) if velocity is None else velocity

    def __call__(self, gradient: Floats) -> None:
        training.descend(self._work, self.weights, self.velocity, gradient, self._world)

    def together(self, sums: tuple[Floats, Floats], history: tuple[float, float]) -> None:
        """Take the step of :func:`testbed.workloads.learning.training.descend_together`."""
        training.descend_together(self._work, self.weights, self.velocity, sums, history, self._world)


def floats(task: Task) -> int:
    """Count the model's weights."""
    assert isinstance(task, Training)
    return training.network(task).floats()


def judged(
    weights: Floats,
    task: Task,
    worlds: reference.Worlds,
    mode: reference.Mode,
    scales: reference.Scales,
    order: Sequence[Update | Step],
) -> dict[str, Any]:
    """Judge the weights, compared with those of a single process."""
    assert isinstance(task, Training)
    return reference.judged(weights, task, worlds, mode, scales, order)


class Trainer(Learner):
    """A worker that trains."""

    def __init__(self, job: WorkerJob, rank: int) -> None:
        assert isinstance(job.training, Training)
        training.use_one_thread()
        device = accelerated.device_for(job.compute, rank)
        self._replica = accelerated.replica_on(device, job.training, job.buckets)
        super().__init__(self._replica)
        self.device = accelerated.name(device)
        self._own: dict[int, list[float]] = {}
        self._summed: dict[int, list[float]] = {}

    def join(self, job: WorkerJob, completed: int, names: Sequence[str]) -> None:
        """Take the weights of workers that have done more, or give them to those that have done less."""
        self._replica.shift = job.failover.shift if job.failover else 0
        failover.catch_up(job, self._replica, completed, names)

    def onlooker(self, job: WorkerJob, session: Session) -> Onlooker:
        return _Sketches(self, self._replica, sums=session.leaves_sums and job.rank == 0, wanted=session.checks_sums)

    def newest(self) -> Floats:
        self._replica.fetch()
        return self.weights

    def save(self, job: WorkerJob) -> None:
        self._replica.fetch()
        super().save(job)

    def result(self) -> dict[str, Any]:
        """Return the weights' digest, and sketches by iteration (:mod:`testbed.workloads.learning.sketch`): of this
        worker's gradients and, on rank 0, of their sums."""
        return {**super().result(), "own": list(self._own.items()), "summed": list(self._summed.items())}

    def note_own(self, iteration: int, sketch: list[float]) -> None:
        self._own[iteration] = sketch

    def note_sum(self, iteration: int, sketch: list[float]) -> None:
        self._summed[iteration] = sketch


class _Sketches(Onlooker):
    """Observer that keeps sketches of a worker's gradients and, on rank 0, of their sums."""

    def __init__(self, trainer: Trainer, replica: training.Replica, *, sums: bool, wanted: bool) -> None:
        self._trainer, self._sums = trainer, sums
        self._last: int | None = None
        replica.sketch = self._sketch = Sketch(replica.gradient, replica.buckets) if wanted else None

    def synchronised(self, iteration: int) -> None:
        self._last = iteration
        if self._sketch:
            self._trainer.note_own(iteration, self._sketch.values())

    def before_computing(self) -> None:
        if self._sketch and self._sums and self._last is not None:
            self._trainer.note_sum(self._last, self._sketch.whole())
