"""Theory of trials whose transfers are scheduled: they are played on an ideal network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.workloads.kinds.asked import Demand
from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.parts import Predictor


@dataclass(frozen=True)
class FabricPredictor(Predictor[Fabric]):
    """Times of trials as :mod:`.ideal` plays them; ``makes_sums`` says that workers get sums, and not weights."""

    makes_sums: bool

    def likely_jct_s(self, plan: Fabric, demand: Demand) -> float | None:
        from testbed.workloads.kinds.fabric import ideal

        return ideal.likely_jct_s(plan, demand, makes_sums=self.makes_sums)

    def predicted(self, plan: Fabric, demand: Demand) -> Mapping[str, float]:
        from testbed.workloads.kinds.fabric import ideal

        return ideal.predicted(plan, demand, makes_sums=self.makes_sums)
