"""Work of workers between synchronisations: they train, sample topics, or play a profile back.

A task is a module here, or an entry point ``testbed.tasks`` of an installed package (:mod:`testbed.base.plugins`). It
has the class of what a job says of it (``TASK``), a worker's part in it (``take_part``), and what a server that adds
gradients up does with them (``served``). A task that leaves weights also says what these are worth (``judged``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError
from testbed.base.plugins import plugged
from testbed.workloads.job import Replay, Task, TopicModel, Training, WorkerJob
from testbed.workloads.kinds.base import AnyKind
from testbed.workloads.learning.parts import Span
from testbed.workloads.learning.updates import Step, Update
from testbed.workloads.tasks.base import Participant, Room

BUILT_IN: dict[str, tuple[type[Task], bool]] = {
    "train": (Training, True),
    "profile": (Replay, False),
    "lda": (TopicModel, False),
}
"""Built-in tasks by name: the class of a job's fields for the task, and whether its module imports PyTorch. The harness
reads jobs, too, and has no use for PyTorch."""
Floats = NDArray[np.float32]


@runtime_checkable
class Together(Protocol):
    """A server's step with several gradients and momentum at once, besides the step with one."""

    velocity: Floats
    """The last change of the weights, which they repeat in part."""

    def together(self, sums: tuple[Floats, Floats], history: tuple[float, float]) -> None:
        """Take the step of :func:`testbed.workloads.learning.training.descend_together`."""


class TaskModule(Protocol):
    """Interface of a module of this package."""

    TASK: type[Task]
    """A frozen dataclass whose fields fit into JSON."""

    def take_part(self, job: WorkerJob, rank: int, kind: AnyKind) -> Participant:
        """Make a worker's part, which gives gradients."""

    def served(self, job: WorkerJob, span: Span) -> tuple[Floats, Callable[[Floats], None]]:
        """Make the weights of a server that has this span of them, and the function by which that part of a gradient
        changes them."""


@runtime_checkable
class Expecting(Protocol):
    """Interface of a task whose workers share data that was made before they were forked."""

    def expect(self, works: Collection[Task]) -> None:
        """Make data that workers on these tasks of its own would else make each; until the next call there are no
        others."""


@runtime_checkable
class Stepping(Protocol):
    """Interface of a task whose weights a server can change by sums of all workers' gradients."""

    SKETCHED: bool
    """Whether workers sketch their gradients, so that sketches of sums are compared with theirs."""

    def stepped(
        self, job: WorkerJob, spans: Sequence[Span], room: Room
    ) -> list[tuple[Floats, Callable[[Floats], None]]]:
        """Make, for each of these spans, the values that workers get of it, and the function by which a sum of all
        workers' gradients changes them: weights, or where there are none, the sum itself. All that a step changes is in
        ``room``."""


class JudgedModule(TaskModule, Protocol):
    """Interface of a task whose weights depend on the sums, so that a process of the harness does the work again."""

    def floats(self, task: Task) -> int:
        """Count the weights."""

    def judged(
        self,
        weights: Floats,
        task: Task,
        worlds: Sequence[tuple[int, int]],
        mode: str,
        scales: Sequence[float | None],
        order: Sequence[Update | Step],
    ) -> dict[str, Any]:
        """Judge the weights with which a trial ended (:func:`testbed.workloads.learning.reference.judged` says what is
        returned).

        ``worlds`` are (first iteration, ranks) of each phase, with the scale of its fixed point in ``scales``, ``mode``
        is that of computing, and ``order`` that of updates, where each gradient is one.
        """


@cache
def module(name: str) -> TaskModule:
    """Return the task of that name. Raises KeyError: there is none."""
    found: Any = import_module(f"{__name__}.{name}") if name in BUILT_IN else plugged("tasks")[name]
    return found  # type: ignore[no-any-return]


def load(told: Mapping[str, Any]) -> Task:
    """Load a task from its fields in a job's file."""
    listed = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    kind = told["kind"]
    task = BUILT_IN[kind][0] if kind in BUILT_IN else module(kind).TASK
    return task(**listed)


def expect(works: Collection[Task]) -> None:
    """Make once, in a process that will fork workers on these tasks, the data that each worker would else make for
    itself. Tasks of other packages are left out, because their code runs in workers only."""
    for kind in {work.kind for work in works} & BUILT_IN.keys():
        found: Any = module(kind)
        if isinstance(found, Expecting):
            found.expect([work for work in works if work.kind == kind])


def take_part(job: WorkerJob, rank: int, kind: AnyKind) -> Participant:
    """Make a worker's part in a job."""
    if (model := kind.model_parallel) is not None:
        return model.take_part(job, rank)
    return module(job.training.kind).take_part(job, rank, kind)


def judging(task: Task) -> JudgedModule:
    """Return the task's module, which can judge its weights, for a task that has some."""
    found: Any = module(task.kind)
    return found  # type: ignore[no-any-return]


def served(job: WorkerJob, span: Span | None = None) -> tuple[Floats, Callable[[Floats], None]]:
    """Make the weights of a server that has this span of them, and the function by which that part of a gradient
    changes them; None is all."""
    return module(job.training.kind).served(job, span or (0, job.buckets[-1][1]))


def stepping(task: Task) -> Stepping:
    """Return the task's module, if servers can take its steps.

    Raises:
        SpecError: they cannot.
    """
    found: Any = module(task.kind)
    if not isinstance(found, Stepping):
        raise SpecError(f"a server takes no steps for a workload of kind {task.kind}", fix="use ps")
    return found
