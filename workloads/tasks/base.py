"""A worker's part in a trial, the samples that it writes, and the common part of all workers whose weights depend on
the sums: they compute, synchronise, and take a step."""

from __future__ import annotations

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, TextIO

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.job import WorkerJob
from testbed.workloads.learning import compute
from testbed.workloads.learning.checkpoint import Keeper
from testbed.workloads.learning.compute import Accelerator, Computed
from testbed.workloads.learning.parts import Span
from testbed.workloads.process.meter import TASKS, Meter
from testbed.workloads.sync import session as sync
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
    """The file to which a process writes its samples, and the process's progress: iterations that are ``completed``,
    and whether the first has ``begun``."""

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
        """Prepare for meeting the others, in the first job and in each after a node died, by all nodes' names."""

    def save(self, job: WorkerJob) -> None:  # noqa: B027
        """Save what the job asks for, when all is done."""


class Model(compute.Model, sync.Model, Protocol):
    """The model on which a worker computes."""

    @property
    def weights(self) -> Floats: ...


class Onlooker:
    """Observer of gradients and sums while they are there; this one does nothing."""

    def before_computing(self) -> None:
        """Look at the last sum, which is still in the gradient, and is about to be overwritten."""

    def synchronised(self, iteration: int) -> None:
        """Note that the sum of this iteration is in the gradient now."""


class Learner(Participant):
    """A worker with a model of its own, which ends with the same weights as all others."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def gradient(self) -> Floats:  # type: ignore[override]
        return self._model.gradient

    @property
    def weights(self) -> Floats:  # type: ignore[override]
        return self._model.weights

    def onlooker(self, job: WorkerJob, session: Session) -> Onlooker:  # noqa: ARG002
        """Make the observer of this session's gradients and sums."""
        return Onlooker()

    def go(self, job: WorkerJob, session: Session, notes: Notes) -> None:
        assert job.rank is not None
        model, release = self._model, Release(job, session, notes)
        layered, once = job.overlap == "layer", job.compute.mode == "none"
        onlooker = self.onlooker(job, session)
        accelerator = Accelerator(model, job.compute, job.rank, job.world, layered, release, session.poll)
        session.barrier(job.timeout_s)
        notes.begin()
        sum_s: float | None = None
        for i in session.iterations(notes.completed, job.training.iterations):
            if self.keeper(job).after(i):
                sum_s = None  # the iteration's pace begins after the checkpoint
            start_s = time.monotonic()
            if not once:
                onlooker.before_computing()
            computed = accelerator.run(i, start_s, sum_s)
            sum_s = session.wait(job.silence_s)
            used = release.meter.now().since(release.ready)
            computed = replace(computed, rested_s=accelerator.rest())
            onlooker.synchronised(i)
            if not once:
                session.step(model, job.world)
            end_s = time.monotonic() - computed.rested_s  # on a machine of its own it would not rest
            notes.iteration(job, session, i, (start_s, release.ready.time_s, sum_s, end_s), computed, used)
        onlooker.before_computing()
        if once:
            model.step(job.world)  # so that the weights tell whether the last sum was right

    def save(self, job: WorkerJob) -> None:
        """Save the weights, on rank 0."""
        if job.weights is not None:
            np.save(job.weights, self._model.weights)

    def result(self) -> dict[str, Any]:
        """Return the weights' digest."""
        return {"weights_sha256": hashlib.sha256(self._model.weights.data).hexdigest()}
