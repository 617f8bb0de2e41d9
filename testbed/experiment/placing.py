"""The plan of an arm whose strategy says which hosts hold each operator."""

from __future__ import annotations

from typing import Any

from testbed.spec import Arm
from testbed.spec.workload.base import Synchronised
from topologies.model import Topology
from workloads import kinds
from workloads.buckets import Gradient
from workloads.kinds.hybrid.schemes import planned
from workloads.parallel.operators import FLOAT_BYTES, Model
from workloads.parallel.prediction import Machine
from workloads.parallel.strategy import check_fits, gradients, read
from workloads.plan import Plan
from workloads.sync.cost import Cost


def placed(scheme: str, topology: Topology, model: Model, given: Any) -> tuple[Gradient, Plan, Cost]:
    """The gradients that hosts sum, the verified plan, and what an iteration costs; ``given`` is as in a spec.

    Raises:
        SpecError, SchemeError: the strategy cannot be, or the scheme does not sum in its groups.
    """
    strategy = read(model, topology.host_count, given)
    plan = planned(scheme, topology, model, strategy)
    kinds.verify(plan, topology)
    sent = _gradient(tuple(size // FLOAT_BYTES for size in gradients(model, strategy).values()))
    return sent, plan, kinds.cost(plan, topology, FLOAT_BYTES * sent.floats)


def check_memory(arm: Arm, work: Synchronised, batch: int, servers: int) -> None:
    """
    Raises:
        SpecError: under the arm's strategy a server would hold more than fits.
    """
    model = work.whole(batch, arm.parts)
    check_fits(model, read(model, servers, arm.strategy), memory_bytes(arm))


def memory_bytes(arm: Arm) -> float:
    """Of each server, for a model of its own size."""
    return Machine().memory_bytes if arm.memory_bytes is None else arm.memory_bytes


def _gradient(groups: tuple[int, ...]) -> Gradient:
    """Those of each group, in floats, which leave together when all passes are done."""
    return Gradient(groups, (range(1),), ((0, sum(groups)),))
