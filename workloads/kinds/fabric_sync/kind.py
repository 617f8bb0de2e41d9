"""The kind of synchronous schemes whose sums a scheduler plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from testbed.topologies.model import Topology
from testbed.workloads.kinds.base import Asked, Floats, Refusal, Told
from testbed.workloads.kinds.fabric.kind import FabricKind, refuse_unplannable
from testbed.workloads.kinds.fabric.parts import FabricPredictor, FabricSimulation
from testbed.workloads.kinds.fabric.plan import Fabric, Sent, drawn_root
from testbed.workloads.kinds.fabric_sync import plan as plans
from testbed.workloads.kinds.fabric_sync.plan import SumsCost, Synchronous
from testbed.workloads.kinds.parts import Carrier, Lots, OwnSamples, Survivor, Wording
from testbed.workloads.sync.cost import Cost, Shaper

if TYPE_CHECKING:
    import pandas as pd


class Roots(Lots[Fabric]):
    """Roots of sums, of which each iteration has one that is drawn for it."""

    def drawn(self, plan: Fabric, seed: int) -> Fabric:
        if not plan.roots:
            return plan
        return replace(plan, options=replace(plan.options, seed=seed), server=drawn_root(plan.roots, 0, seed))


class SumsWording(Wording):
    """Words for sums that a scheduler plans."""

    def least_gst(self, bound: str, whole: str) -> str:
        there = "the last gradient there, unless it is a root's own"
        return f"{bound} for {there}, and the sum to all; {whole} if nothing is summed on its way"


class SynchronousKind(FabricKind):
    """Workers with daemons, a scheduler, and a server that makes sums, or a root for each."""

    name = "fabric_sync"
    plan_type = Synchronous
    sums_together = True
    carrier = Carrier("a scheduler plans each transfer by a size that it knows beforehand")
    own_samples = OwnSamples()
    wording = SumsWording()
    lots = Roots()
    predictor = FabricPredictor(makes_sums=True)
    simulation = FabricSimulation(makes_sums=True)
    own_checks = None
    survivor = Survivor[Fabric]()  # of nobody: an iteration would lack a lost worker's gradient

    def refuse(self, plan: Fabric, topology: Topology, asked: Asked) -> None:
        refuse_unplannable(plan, topology, asked, "gradients")

    def cannot(self, plan: Fabric) -> Mapping[str, Refusal]:
        fix = "leave the scheme out of this experiment"
        steps = Refusal(
            "the scheduler plans each synchronisation anew, so it has no steps", f"{fix}, or write of: iteration"
        )
        return {**super().cannot(plan), "steps": steps}

    def keepers(self, plan: Fabric) -> Sequence[int]:
        return plan.workers[:1]

    def describe(self, plan: Fabric) -> list[tuple[str, str]]:
        rows = [one for one in super().describe(plan) if one[0] != "updates"]
        return [("root", "a worker, drawn for each iteration"), *rows[1:]] if plan.roots else rows

    def cost_of(self, moved: Iterable[Sent], plan: Fabric, topology: Topology, gradient_bytes: float) -> Cost:
        return plans.cost_of(moved, plan, topology, gradient_bytes)

    def least_jct_s(self, cost: Cost, shaper: Shaper, pace_s: Floats, overlap: str) -> float:
        assert isinstance(cost, SumsCost)
        return cost.least_jct_s(pace_s, shaper)

    def told(self, plan: Fabric, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
        from testbed.workloads.kinds.fabric_sync import account

        return account.told(plan, samples, done, iterations)


KIND = SynchronousKind()
