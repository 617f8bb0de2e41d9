"""Theory of trials under a strategy: an iteration's critical path through computing, messages and AllReduces."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads.kinds.asked import Stage
from testbed.workloads.kinds.hybrid.plan import Plan
from testbed.workloads.kinds.hybrid.program.pace import flop_per_s
from testbed.workloads.kinds.parts import Predictor
from testbed.workloads.parallel.network import Network
from testbed.workloads.parallel.prediction import Machine, Prediction, predict, stages

MOMENT_S = 1e-6
"""Pace that takes no time, for a prediction that divides by it."""
MOST_BYTES = 1e18
"""Memory of a server for a prediction: a strategy that does not fit is refused earlier."""


class StrategyPredictor(Predictor[Plan]):
    """The time of an iteration as :mod:`testbed.workloads.parallel.prediction` has it."""

    def iteration_s(self, plan: Plan, topology: Topology, pace_s: float, goodput: float) -> float:
        return _predicted(plan, topology, pace_s, goodput).iteration_s

    def critical_path(self, plan: Plan, topology: Topology, pace_s: float, goodput: float) -> Sequence[Stage]:
        path = stages(_predicted(plan, topology, pace_s, goodput).critical_path)
        return [Stage(stage.what, stage.where, stage.start_s, stage.end_s) for stage in path]


def _predicted(plan: Plan, topology: Topology, pace_s: float, goodput: float) -> Prediction:
    machine = Machine(flop_per_s(plan.model, max(pace_s, MOMENT_S)), memory_bytes=MOST_BYTES, overlaps=False)
    own = Part(topology, plan.workers).topology
    return predict(plan.model, plan.strategy, Network(own, plan.rings, goodput), machine)
