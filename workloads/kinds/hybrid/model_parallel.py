"""Servers of a strategy as the part of their kind that says which operators, weights and losses each of them has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from testbed.workloads.job import Replay
from testbed.workloads.kinds.hybrid.plan import Plan
from testbed.workloads.kinds.hybrid.program.layout import collected, held_floats
from testbed.workloads.kinds.parts import ModelParallel

if TYPE_CHECKING:
    from testbed.workloads.job import WorkerJob
    from testbed.workloads.play.steps import Steps
    from testbed.workloads.tasks.base import Participant

WAITS = ("mp_wait_forward_s", "mp_wait_backward_s")
"""Columns, by phase, of how long (s) a server had nothing to compute in an iteration for want of messages."""


class HeldOperators(ModelParallel[Plan]):
    """Operators that each server holds under a plan's strategy."""

    waits = WAITS

    def steps(self, plan: Plan) -> Steps:
        from testbed.workloads.kinds.hybrid.simulation import passes

        return passes(plan)

    def groups(self, plan: Plan) -> Mapping[tuple[int, ...], int]:
        return {members: stop - start for members, (start, stop) in plan.layout.groups.items()}

    def paces(self, plan: Plan) -> Sequence[float]:
        return plan.paces

    def take_part(self, job: WorkerJob, rank: int) -> Participant:
        from testbed.workloads.kinds.hybrid.worker import Replayer

        if isinstance(job.training, Replay):
            return Replayer(job, rank)
        from testbed.workloads.kinds.hybrid.trainer import Trainer  # which needs PyTorch

        return Trainer(job)

    def losing(self, plan: Plan) -> Sequence[int]:
        ends = [place for place, consumers in enumerate(plan.model.consumers) if not consumers]
        return sorted({server for place in ends for server in plan.strategy.holders[place]})

    def held(self, plan: Plan) -> Sequence[int]:
        return [held_floats(plan.model, plan.strategy, server) for server in range(len(plan.workers))]

    def collected(self, plan: Plan, parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        together = collected(plan.model, plan.strategy, parts)
        if together.differing:
            name, *differing = together.differing[0]
            first, second = (plan.nodes[plan.workers[server]] for server in differing)
            raise WorkerError(
                f"the weights of operator {name} differ on {first} and {second}",
                fix="the scheme did not give every server that holds it the same sum; read its code",
            )
        return together.weights
