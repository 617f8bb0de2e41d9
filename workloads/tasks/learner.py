"""The common part of all workers whose weights depend on the sums: they compute, synchronise, and take a step."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from testbed.workloads.job import WorkerJob
from testbed.workloads.learning import compute
from testbed.workloads.learning.compute import Accelerator
from testbed.workloads.sync import session as sync
from testbed.workloads.sync.session import Session
from testbed.workloads.tasks.base import Floats, Notes, Participant, Release


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
