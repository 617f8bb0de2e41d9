"""The part of a server that trains: its operators, and sketches of gradients and of their sums.

Each server sketches its own gradients of the operators that it shares with others. The sum of a group is sketched by
the group's first server. So the sketches of all own gradients add up to those of all sums, as where each worker has the
whole gradient (:mod:`testbed.workloads.learning.sketch`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from testbed.workloads.job import Training, WorkerJob
from testbed.workloads.kinds.hybrid.plan import Plan
from testbed.workloads.kinds.hybrid.program.server import Server
from testbed.workloads.kinds.hybrid.program.steps import Step
from testbed.workloads.kinds.hybrid.worker import Part
from testbed.workloads.learning import training
from testbed.workloads.learning.sketch import Sketch
from testbed.workloads.tasks.base import Floats

Sketches = dict[int, list[float]]


class Trainer(Part):
    """A part that trains, and saves the weights that it holds.

    Attributes:
        gradient: float32[gradient floats], what groups sum.
        weights: those of all operators; those of operators that only others hold are missing.
        own, summed: by iteration, sketches of its gradients, and of the sums that it tells of.
    """

    device = "cpu"

    def __init__(self, task: Training, plan: Plan, server: int) -> None:
        """Set up. Raises SpecError: the model has no operators or no module, or does not fit the data set."""
        super().__init__(plan)
        training.use_one_thread()
        self._server = Server(task, plan.strategy, server, training.first_weights(task))
        self._server.warm_up()
        self.buffers, self.weights = self._server.buffers, self._server.weights
        self.gradient = self._server.gradient[: plan.gradient_floats]
        holders = plan.strategy.holders
        self._held = {place for place, those in enumerate(holders) if server in those}
        shared = [place for place, those in enumerate(holders) if len(those) > 1]
        self._sketch = Sketch(self.gradient, [plan.layout.operators[place] for place in shared])
        self._bucket = {place: bucket for bucket, place in enumerate(shared)}
        self._told = [self._bucket[place] for place in shared if holders[place][0] == server]
        self.own: Sketches = {}
        self.summed: Sketches = {}
        self._iteration, self._left, self._is_forward = -1, 0, True
        self._behind: set[int] = set()
        """Operators whose weights lack the sum of the iteration before."""

    @property
    def loss(self) -> float | None:
        return self._server.loss

    def begin(self, iteration: int) -> None:
        """Begin an iteration. Each shared operator takes the step of SGD when it is needed, so that the first outputs
        do not wait for all of them."""
        self._iteration, self._left, self._is_forward = iteration, len(self._server.steps), True
        self._server.begin(iteration)

    def while_summing(self) -> Iterator[None]:
        """Take the steps of SGD of operators that no other server holds."""
        self._behind = self._held.copy()
        for place in sorted(self._held - self._bucket.keys()):
            self._descend(place)
            yield

    def received(self, number: int) -> None:
        """Do nothing: a message lies where its operator reads it."""

    def compute(self, step: Step) -> None:
        """Take a step; with the last one of an iteration, the gradients are there."""
        if step.place in self._behind:
            self._descend(step.place)
        if self._is_forward and step.phase == "backward":  # the first one, which overwrites a part of the sum
            self._is_forward = False
            self._look_at_sum(self._iteration - 1)
            self._sketch.begin()
        self._server.compute(step)
        if step.phase == "backward" and step.place in self._bucket:
            self._sketch.add(self._bucket[step.place])
        self._left -= 1
        if not self._left:
            self.own[self._iteration] = self._sketch.values()

    def finish(self) -> None:
        """Change the weights by the sums of the last iteration, which are there."""
        self._look_at_sum(self._iteration)
        for place in sorted(self._behind):
            self._descend(place)

    def _descend(self, place: int) -> None:
        self._behind.remove(place)
        self._server.descend(place)

    def _look_at_sum(self, iteration: int) -> None:
        """Sketch the sum of an iteration, if there is one, while it is there."""
        if iteration < 0 or not self._told:
            return
        self._sketch.begin()
        for bucket in self._told:
            self._sketch.add(bucket)
        self.summed[iteration] = self._sketch.values()

    def saved(self) -> Floats:
        """Return the weights that it holds, see :func:`testbed.workloads.kinds.hybrid.program.layout.saved`."""
        return self._server.saved()

    def save(self, job: WorkerJob) -> None:
        assert job.weights is not None  # each server has other ones
        np.save(job.weights, self.saved())

    def result(self) -> dict[str, Any]:
        """Report sketches by iteration: of this server's gradients, and of the sums that it reports on."""
        return {"own": list(self.own.items()), "summed": list(self.summed.items())}
