"""Topic models: each worker samples its shard, and the changes of the word-topic counts are summed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from testbed.workloads.job import Task, TopicModel, WorkerJob
from testbed.workloads.kinds.base import AnyKind
from testbed.workloads.lda import reference
from testbed.workloads.lda.reference import first_counts
from testbed.workloads.learning.parts import Span
from testbed.workloads.learning.updates import Step, Update
from testbed.workloads.tasks.base import Floats, Learner, Room

TASK = TopicModel
SKETCHED = False


def take_part(job: WorkerJob, rank: int, kind: AnyKind) -> Sampler:  # noqa: ARG001 - a change is the same for all kinds
    """Make a worker with a shard of the documents."""
    return Sampler(job, rank)


def served(job: WorkerJob, span: Span) -> tuple[Floats, Callable[[Floats], None]]:
    """Make the counts of a server, and the function that adds changes to them."""
    assert isinstance(job.training, TopicModel)
    counts = first_counts(reference.shards(job.training, job.world), job.training.floats)[slice(*span)].copy()
    return counts, partial(np.add, counts, out=counts)


def stepped(job: WorkerJob, spans: Sequence[Span], room: Room) -> list[tuple[Floats, Callable[[Floats], None]]]:
    """Make the counts of each span, and the function that adds all workers' changes to them."""
    counts, _ = served(job, (0, job.buckets[-1][1]))
    parts = [room(stop - start) for start, stop in spans]
    for part, span in zip(parts, spans, strict=True):
        np.copyto(part, counts[slice(*span)])
    return [(part, partial(np.add, part, out=part)) for part in parts]


def floats(task: Task) -> int:
    """Count the word-topic counts."""
    assert isinstance(task, TopicModel)
    return task.floats


def judged(
    weights: Floats,
    task: Task,
    worlds: Sequence[tuple[int, int]],
    mode: str,  # noqa: ARG001 - a sweep is the same however long it takes
    scales: Sequence[float | None],  # noqa: ARG001 - sums are rounded to whole numbers, so no scale is left in them
    order: Sequence[Update | Step],
) -> dict[str, Any]:
    """Judge the counts, compared with those of a single process."""
    assert isinstance(task, TopicModel)
    ((_, world),) = worlds  # a job of this task does not go on when nodes die
    return reference.judged(weights, task, world, order)


class Sampler(Learner):
    """A worker that samples."""

    def __init__(self, job: WorkerJob, rank: int) -> None:
        assert isinstance(job.training, TopicModel)
        self._counts = Counts(job.training, rank, job.world)
        super().__init__(self._counts)

    def dropped(self, iteration: int) -> None:  # noqa: ARG002 - the last one
        """Note that an update was dropped. The next update contains it: topics that were drawn stay drawn."""
        self._counts.is_dropped = True


class Counts:
    """A worker's copy of the word-topic counts, and its update of them.

    Attributes:
        weights: float32[floats], the common counts.
        gradient: float32[floats], by how much this worker changed them; then the sum over all workers.
        is_dropped: whether the update that was sent last is in no counts that come.
    """

    is_warm = False

    def __init__(self, model: TopicModel, rank: int, world: int) -> None:
        shards = reference.shards(model, world)
        self.weights: Floats = first_counts(shards, model.floats)
        self.gradient: Floats = np.zeros(model.floats, np.float32)
        self.is_dropped = False
        self.buckets = ((0, model.floats),)
        self.on_ready: Callable[[int], None] = lambda _bucket: None
        self._shard = shards[rank]

    def samples(self, iteration: int, rank: int, world: int) -> tuple[int]:  # noqa: ARG002 - always its own shard
        return (iteration,)

    def compute(self, iteration: int) -> float:
        """Draw all topics of the shard anew, and write the update; return minus the mean log-likelihood of a token."""
        loss = self._shard.sample(iteration, self.weights)
        self._shard.change(self.gradient)
        return loss

    def step(self, world: int) -> None:  # noqa: ARG002 - a sum of counts, not a mean
        """Add the sum of all workers' changes. They are whole; after rounding they are so in fixed point, too."""
        self.weights += np.rint(self.gradient)
        self._shard.settle(is_common=True)

    def put(self) -> None:
        """Go on from counts that came, and that have this worker's update in them unless it was dropped."""
        self._shard.settle(is_common=not self.is_dropped)
        self.is_dropped = False
