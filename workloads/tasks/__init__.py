"""What workers do between synchronisations: they train, or play a profile back.

A task is a module here, or an entry point ``testbed.tasks`` of an installed package (:mod:`testbed.base.plugins`). It
has the class of what a job says of it (``TASK``), a worker's part in it (``take_part``), and what a server that adds
gradients up does with them (``served``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from testbed.base.plugins import plugged
from workloads.job import Replay, Task, Training, WorkerJob
from workloads.kinds.base import AnyKind
from workloads.tasks.base import Participant
from workloads.updates import Span

BUILT_IN: dict[str, tuple[type[Task], bool]] = {"train": (Training, True), "profile": (Replay, False)}
"""By name, what a job says of it, and whether its module imports PyTorch. The harness reads jobs, too, and has no use
for PyTorch."""
Floats = NDArray[np.float32]


class TaskModule(Protocol):
    """A module of this package."""

    TASK: type[Task]
    """A frozen dataclass of what JSON can say."""

    def take_part(self, job: WorkerJob, rank: int, kind: AnyKind) -> Participant:
        """A worker's part, where gradients are from."""

    def served(self, job: WorkerJob, span: Span) -> tuple[Floats, Callable[[Floats], None]]:
        """The weights of a server that has this span of them, and what that of a gradient does to them."""


@cache
def module(name: str) -> TaskModule:
    """The task of that name. Raises KeyError: there is none."""
    found: Any = import_module(f"{__name__}.{name}") if name in BUILT_IN else plugged("tasks")[name]
    return found  # type: ignore[no-any-return]


def load(told: Mapping[str, Any]) -> Task:
    """A task from what a job's file says of it."""
    listed = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    kind = told["kind"]
    task = BUILT_IN[kind][0] if kind in BUILT_IN else module(kind).TASK
    return task(**listed)


def take_part(job: WorkerJob, rank: int, kind: AnyKind) -> Participant:
    """A worker's part in a job."""
    return module(job.training.kind).take_part(job, rank, kind)


def served(job: WorkerJob, span: Span | None = None) -> tuple[Floats, Callable[[Floats], None]]:
    """The weights of a server that has this span of them, and what that of a gradient does to them; None is all."""
    return module(job.training.kind).served(job, span or (0, job.buckets[-1][1]))
