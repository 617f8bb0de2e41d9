"""Time that a step is to take: its operator's share of a pace.

A pace (``compute.pace``) is the time for a whole gradient of one server's batch. An operator's share of it is that of
its multiply-adds, once for each server whose batch it serves; a backward pass takes twice as long as a forward pass.
"""

from __future__ import annotations

from testbed.workloads.job import Compute
from testbed.workloads.kinds.hybrid.program.cut import PHASES, Phase, Step
from testbed.workloads.parallel.operators import Model
from testbed.workloads.parallel.prediction import BACKWARD, FLOP_OF_AN_ITERATION


def step_s(model: Model, step: Step, pace_s: float) -> float:
    """Compute the time (s) of a step."""
    passes = BACKWARD if step.phase == "backward" else 1
    share = model.operators[step.place].multiply_adds / model.multiply_adds
    return pace_s * share * len(step.servers) * passes / (1 + BACKWARD)


def flop_per_s(model: Model, pace_s: float) -> float:
    """Return the speed of a :class:`testbed.workloads.parallel.prediction.Machine` on which steps take these times."""
    return FLOP_OF_AN_ITERATION * model.multiply_adds * model.samples / pace_s


class Clock:
    """Ideal clock of a server that takes one step at a time: when each step ends, and how long the server waits for
    messages.

    A step that was computed too late is counted, and the server makes up for it in the steps that follow: a step of a
    table may have a pace of less time than a processor needs for it.

    Attributes:
        wait_s: of this iteration, the time without a step to take, by the phase of the step that was missing.
        overrun_s: of this iteration, by how much the latest step missed its due time; 0 unless paced.
    """

    def __init__(self, model: Model, compute: Compute) -> None:
        self._model, self._compute = model, compute
        self._free_s = 0.0
        self._factor, self._extra_s = 1.0, 0.0
        self.wait_s: dict[Phase, float] = {}
        self.overrun_s = 0.0

    def begin(self, iteration: int, now_s: float) -> None:
        """Begin an iteration; a straggler's extra time belongs to its first step."""
        self._factor, self._extra_s = self._compute.slowdown(iteration)
        self._free_s = now_s
        self.wait_s, self.overrun_s = dict.fromkeys(PHASES, 0.0), 0.0

    def due_s(self, step: Step, ready_s: float, now_s: float) -> float:
        """Return when the next step ends, so that its results may leave: it is computed by ``now_s``, and all that it
        needs was there at ``ready_s``."""
        began_s = max(ready_s, self._free_s)
        self.wait_s[step.phase] += began_s - self._free_s
        extra_s, self._extra_s = self._extra_s, 0.0
        if self._compute.mode == "paced":
            self._free_s = began_s + self._factor * step_s(self._model, step, self._compute.pace_s) + extra_s
            self.overrun_s = max(self.overrun_s, now_s - self._free_s)
        else:
            self._free_s = now_s + (self._factor - 1) * (now_s - began_s) + extra_s
        return self._free_s
