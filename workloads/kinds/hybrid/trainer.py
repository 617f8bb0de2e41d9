"""The part of a server that trains the operators that it holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from testbed.workloads.job import Training, WorkerJob
from testbed.workloads.kinds.hybrid.exchange import Floats
from testbed.workloads.kinds.hybrid.trained import Trained
from testbed.workloads.kinds.hybrid.worker import Part, plan_of


class Trainer(Part):
    """A part that trains, and saves the weights that it holds."""

    device = "cpu"

    def __init__(self, job: WorkerJob) -> None:
        assert isinstance(job.training, Training)
        plan = plan_of(job)
        assert job.rank is not None  # each server is a worker
        self._trained = Trained(job.training, plan, job.rank)
        super().__init__(plan, self._trained)
        self.buffers = self._trained.buffers

    @property
    def gradient(self) -> Floats:  # type: ignore[override]
        return self._trained.gradient

    @property
    def weights(self) -> Floats:  # type: ignore[override]
        return self._trained.weights

    @property
    def loss(self) -> float | None:
        return self._trained.loss

    def finish(self) -> None:
        self._trained.finish()

    def save(self, job: WorkerJob) -> None:
        assert job.weights is not None  # each server has other ones
        np.save(job.weights, self._trained.saved())

    def result(self) -> dict[str, Any]:
        """Report sketches by iteration: of this server's gradients, and of the sums that it reports on."""
        return {"own": list(self._trained.own.items()), "summed": list(self._trained.summed.items())}
