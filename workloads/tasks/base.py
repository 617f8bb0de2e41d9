"""A worker's part in a trial, and the samples that it writes."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.job import WorkerJob
from testbed.workloads.learning.checkpoint import Keeper
from testbed.workloads.learning.compute import Computed
from testbed.workloads.learning.parts import Span
from testbed.workloads.process.meter import TASKS, Meter
from testbed.workloads.sync.session import Session

Floats = NDArray[np.float32]
Room = Callable[[int], Floats]
"""Function that gives an array of so many zeros."""
Moments = tuple[float, float, float, float]
"""Moments when an iteration started, had its gradient, had the sum, and ended."""


def write(samples: TextIO, kind: str, **fields: object) -> None:
    """Append one line."""
    samples.write(json.dumps({"kind": kind, **fields}) + "\n")


@dataclass
class Notes:
    """The file to which a process writes its samples, and the process's progress.

    Attributes:
        completed: iterations that are done.
        begun: whether the first one has begun.
    """

    samples: TextIO
    completed: int = 0
    begun: bool = False
    meter: Meter | None = None

    def begin(self) -> None:
        """Note that the first iteration begins."""
        if not self.begun:
            write(self.samples, "begin", time=time.monotonic())
            self.begun = True

    def iteration(
        self,
        job: WorkerJob,
        session: Session,
        i: int,
        moments: Moments,
        computed: Computed,
        used: Sequence[float | None],
    ) -> None:
        """Write an iteration that has ended: when it started, had its gradient, had the sum and ended, and what the
        worker ``used`` between gradient and sum: CPU time, run-queue wait, and for how long it stood still."""
        self.completed = i + 1
        named = dict(zip(("start", "ready", "sum", "end"), moments, strict=True))
        rest = {
            **asdict(computed),
            **dict(zip(("cpu_s", "wait_s", "sync_halted_s"), used, strict=True)),
            **session.seen,
        }
        write(self.samples, "iteration", i=i, rank=job.rank, node=job.node, **named, **rest)


class Release:
    """Hands complete buckets to the session, and notes when the last one of an iteration was ready."""

    def __init__(self, job: WorkerJob, session: Session, notes: Notes) -> None:
        self._session, self._last = session, len(job.buckets) - 1
        assert notes.meter
        self.meter = notes.meter
        if not self.meter.counts_waits and not notes.begun:
            print(f"{job.name}: this kernel does not count run-queue waits in {TASKS}; wait_s is null", flush=True)
        self.ready = self.meter.now()

    def __call__(self, bucket: int) -> None:
        if bucket == self._last:
            self.ready = self.meter.now()
        self._session.start(bucket)
        if bucket < self._last:
            self._session.poll(0)


class Participant(ABC):
    """A worker's part: the source of its gradients, and its use of the sums. It is kept when others die.

    Attributes:
        device: what it computes on; None where nothing is computed.
        gradient: float32[floats], which a session sums in place.
        weights: float32[floats], where newer weights arrive in a session that brings some.
    """

    device: str | None = None
    gradient: Floats
    weights: Floats
    _keeper: Keeper | None = None

    def keeper(self, job: WorkerJob) -> Keeper:
        """Return the writer of this worker's checkpoints; the same each time."""
        if self._keeper is None:
            self._keeper = Keeper(job.checkpoint, self.newest)
        return self._keeper

    def newest(self) -> Floats:
        """Return the weights, where they can be read."""
        return self.weights

    @abstractmethod
    def go(self, job: WorkerJob, session: Session, notes: Notes) -> None:
        """Do the iterations that are left."""

    @abstractmethod
    def result(self) -> dict[str, Any]:
        """Return the results of the work for the process's last line."""

    def learn(self, updates: Sequence[tuple[int, int]], span: Span) -> None:  # noqa: B027
        """Note updates, (rank, iteration) each, that weights to come contain in this span, besides those before."""

    def dropped(self, iteration: int) -> None:  # noqa: B027
        """Note that the gradient of this iteration, the last one, was dropped: no weights that come contain it. This is
        called before these weights are taken. By default the gradient is lost, as in SGD."""

    def join(self, job: WorkerJob, completed: int, names: Sequence[str]) -> None:  # noqa: B027
        """Prepare for meeting the others, in the first job and in each after a node died; ``names`` are those of all
        nodes."""

    def save(self, job: WorkerJob) -> None:  # noqa: B027
        """Save what the job asks for, when all is done."""
