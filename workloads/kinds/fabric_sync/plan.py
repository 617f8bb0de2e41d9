"""What MLfabric-S does on a topology, and what a synchronisation costs as it ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from topologies.model import Topology
from workloads.kinds.asynchronous.plan import UpdatesCost
from workloads.kinds.fabric import plan as plans
from workloads.kinds.fabric.plan import Fabric


@dataclass(frozen=True)
class Synchronous(Fabric):
    """A plan whose server makes sums, has no weights, and gives each sum to all workers."""

    kind: ClassVar[str] = "fabric_sync"


@dataclass(frozen=True, eq=False)
class SumsCost(UpdatesCost):
    """What an average synchronisation has cost. Each goes other ways, so bytes of links bound none of them; what bounds
    each is that the last gradient must get to the server and the sum back."""

    moved: ClassVar[bool] = True
    after_last: ClassVar[bool] = True


def cost(plan: Fabric, topology: Topology, gradient_bytes: float) -> SumsCost:
    """Of a gradient of each worker that nobody sums on its way, and of the sum back to each."""
    return SumsCost(**vars(plans.cost(plan, topology, gradient_bytes)))


def cost_of(
    moved: Sequence[tuple[int, int, float]], plan: Fabric, topology: Topology, gradient_bytes: float
) -> SumsCost:
    """Of what was sent: (sender, receiver, bytes)."""
    return SumsCost(**vars(plans.cost_of(moved, plan, topology, gradient_bytes)))
