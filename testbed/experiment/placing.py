"""The plan of an arm whose strategy says which hosts hold each operator."""

from __future__ import annotations

from typing import Any

from testbed.spec import Arm
from testbed.spec.workload.base import Synchronised
from testbed.topologies.model import Topology
from testbed.topologies.part import Part
from testbed.workloads import kinds
from testbed.workloads.kinds.hybrid.schemes import planned
from testbed.workloads.learning.buckets import Gradient
from testbed.workloads.parallel.operators import FLOAT_BYTES, Model
from testbed.workloads.parallel.prediction import Machine
from testbed.workloads.parallel.strategy import check_fits, gradients, read
from testbed.workloads.plan import Plan
from testbed.workloads.sync.cost import Cost


def placed(
    scheme: str, topology: Topology, model: Model, given: Any, part: Part | None = None
) -> tuple[Gradient, Plan, Cost]:
    """The gradients that hosts sum, the verified plan, and what an iteration costs; ``given`` is as in a spec. The plan
    is one for a part of the network, if there is one.

    Raises:
        SpecError, SchemeError: the strategy cannot be, or the scheme does not sum in its groups.
    """
    own = part.topology if part else topology
    strategy = read(model, own.host_count, given)
    plan: Plan = planned(scheme, own, model, strategy)
    if part:
        plan = kinds.placed(plan, part)
    kinds.verify(plan, topology)
    groups = tuple(size // FLOAT_BYTES for size in gradients(model, strategy).values())
    sent = Gradient(groups, (range(1),), ((0, sum(groups)),))  # they leave together when all passes are done
    return sent, plan, kinds.cost(plan, topology, FLOAT_BYTES * sent.floats)


def check_memory(arm: Arm, work: Synchronised, batch: int, servers: int, strategy: Any) -> None:
    """Check that an arm, or one of its jobs, fits into the memory of its servers under its strategy.

    Raises:
        SpecError: a server would hold more than fits.
    """
    model = work.whole(batch, arm.parts)
    check_fits(model, read(model, servers, strategy), memory_bytes(arm))


def memory_bytes(arm: Arm) -> float:
    """Return the memory (bytes) of each server, for a model of its own size."""
    return Machine().memory_bytes if arm.memory_bytes is None else arm.memory_bytes
