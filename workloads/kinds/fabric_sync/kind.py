"""What synchronous schemes declare whose sums a scheduler plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.base.check import Check
from testbed.base.errors import SpecError
from topologies.model import Topology
from workloads.job import Replay
from workloads.kinds.base import Asked, Evidence, Floats, Refusal, Told
from workloads.kinds.fabric.kind import FabricKind, refuse_switches
from workloads.kinds.fabric.plan import Fabric
from workloads.kinds.fabric_sync import plan as plans
from workloads.kinds.fabric_sync.plan import Synchronous
from workloads.sync.cost import Cost

if TYPE_CHECKING:
    import pandas as pd

    from workloads.job import WorkerJob
    from workloads.kinds.measures import Measures
    from workloads.replay import Values


class SynchronousKind(FabricKind):
    """Workers with daemons, a server that makes sums, and a scheduler."""

    name = "fabric_sync"
    plan_type = Synchronous
    sums_together = True
    counts = frozenset()
    numbers = frozenset()
    notes: Mapping[str, str] = {}
    reference = ""

    def refuse(self, plan: Fabric, topology: Topology, asked: Asked) -> None:
        if asked.overlap != "none":
            raise SpecError(
                f"scheme {plan.scheme} schedules whole gradients, so overlap: {asked.overlap} is not possible",
                fix="remove overlap, or compare it with other schemes in an experiment of its own",
            )
        refuse_switches(plan, topology)

    def cannot(self, plan: Fabric) -> Mapping[str, Refusal]:
        fix = "leave the scheme out of this experiment"
        steps = Refusal(
            "the scheduler plans each synchronisation anew, so it has no steps", f"{fix}, or write of: iteration"
        )
        return {**super().cannot(plan), "steps": steps}

    def describe(self, plan: Fabric) -> list[tuple[str, str]]:
        return [one for one in super().describe(plan) if one[0] != "updates"]

    def least_text(self, bound: str, whole: str) -> str:
        return f"{bound} for the last gradient there, and the sum back; {whole} if nothing is summed on its way"

    def cost(self, plan: Fabric, topology: Topology, gradient_bytes: float) -> Cost:
        return plans.cost(plan, topology, gradient_bytes)

    def least_jct_s(self, cost: Cost, least_gst_s: float, goodput: float, pace_s: Floats, overlap: str) -> float:
        return float(np.add(pace_s.max(axis=0), least_gst_s).sum())

    def values(self, job: WorkerJob, rank: int) -> Values:
        from workloads.replay import Values

        work = job.training
        assert isinstance(work, Replay)  # the one task with values
        return Values(job.buckets[-1][1], work.seed, rank, job.world, work.tolerance)

    def told(self, plan: Fabric, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
        from workloads.kinds.fabric_sync import account

        return account.told(plan, samples, done, iterations)

    def cost_as_run(self, plan: Fabric, topology: Topology, gradient_bytes: float, told: Told) -> Cost | None:
        assert told.moved is not None
        return plans.cost_of(told.moved, plan, topology, gradient_bytes)

    def judge(self, seen: Evidence) -> Iterable[Check]:
        return ()

    @cached_property
    def measures(self) -> Measures:
        from workloads.kinds.measures import Measures

        return Measures()


KIND = SynchronousKind()
