"""What a server computes that trains: its operators, and sketches of gradients and of their sums.

Each server sketches its own gradients of the operators that it shares with others. The sum of a group is sketched by
the group's first server. So the sketches of all own gradients add up to those of all sums, as where each worker has the
whole gradient (:mod:`workloads.sketch`).
"""

from __future__ import annotations

from workloads import training
from workloads.job import Training
from workloads.kinds.hybrid.exchange import Floats
from workloads.kinds.hybrid.plan import Plan
from workloads.kinds.hybrid.program.cut import Step
from workloads.kinds.hybrid.program.server import Server
from workloads.sketch import Sketch

Sketches = dict[int, list[float]]


class Trained:
    """
    Attributes:
        buffers: where messages are sent from and received into.
        gradient: float32[gradient floats], what groups sum.
        own, summed: by iteration, sketches of its gradients, and of the sums that it tells of.
    """

    def __init__(self, task: Training, plan: Plan, server: int) -> None:
        """
        Raises:
            SpecError: the model has no operators or no module, or does not fit the data set.
        """
        training.use_one_thread()
        self._server = Server(task, plan.strategy, server, training.first_weights(task))
        self._server.warm_up()
        self.buffers = self._server.buffers
        self.gradient = self._server.gradient[: plan.gradient_floats]
        groups = plan.layout.groups
        self._sketch = Sketch(self.gradient, [*groups.values()])
        self._mine = [place for place, members in enumerate(groups) if server in members]
        self._told = [place for place, members in enumerate(groups) if server == members[0]]
        self.own: Sketches = {}
        self.summed: Sketches = {}
        self._iteration, self._left = -1, 0

    @property
    def loss(self) -> float | None:
        """Of this iteration; None where the server finds none."""
        return self._server.loss

    @property
    def weights(self) -> Floats:
        """Of all operators; of those that others hold, there are none."""
        return self._server.weights

    def begin(self, iteration: int) -> None:
        """An iteration begins, with the weights that the sums of the one before lead to."""
        self.finish()
        self._iteration, self._left = iteration, len(self._server.steps)
        self._server.begin(iteration)

    def received(self, number: int) -> None:
        """A message is where its operator reads it."""

    def compute(self, step: Step) -> None:
        """Take a step; with the last one of an iteration, the gradients are there."""
        self._server.compute(step)
        self._left -= 1
        if not self._left:
            self.own[self._iteration] = self._sketched(self._mine)

    def finish(self) -> None:
        """The sums of the last iteration are there: change the weights."""
        if self._iteration < 0:
            return
        if self._told:
            self.summed[self._iteration] = self._sketched(self._told)
        self._server.descend_all()

    def saved(self) -> Floats:
        """The weights that it holds, see :func:`workloads.kinds.hybrid.program.layout.saved`."""
        return self._server.saved()

    def _sketched(self, groups: list[int]) -> list[float]:
        self._sketch.begin()
        for group in groups:
            self._sketch.add(group)
        return self._sketch.values()
