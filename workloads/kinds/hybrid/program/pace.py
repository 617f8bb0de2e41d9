"""How long a step is to take: its operator's share of a pace.

A pace is the time for a whole gradient of one server's batch (``compute.pace``). An operator's share of it is that of
its multiply-adds, once for each server whose batch it serves; a backward pass takes twice as long as a forward pass.
"""

from __future__ import annotations

from workloads.kinds.hybrid.program.cut import Step
from workloads.parallel.operators import Model
from workloads.parallel.prediction import BACKWARD, FLOP_PER_MULTIPLY_ADD


def step_s(model: Model, step: Step, pace_s: float) -> float:
    """The time of a step."""
    passes = BACKWARD if step.phase == "backward" else 1
    share = model.operators[step.place].multiply_adds / _multiply_adds(model)
    return pace_s * share * len(step.servers) * passes / (1 + BACKWARD)


def flop_per_s(model: Model, pace_s: float) -> float:
    """What a :class:`workloads.parallel.prediction.Machine` computes on which steps take these times."""
    return FLOP_PER_MULTIPLY_ADD * (1 + BACKWARD) * _multiply_adds(model) * model.samples / pace_s


def _multiply_adds(model: Model) -> int:
    """Of one sample's forward pass."""
    return sum(operator.multiply_adds for operator in model.operators)
