"""The plan of an arm whose strategy says which hosts hold each operator."""

from __future__ import annotations

from typing import Any

from topologies.model import Topology
from topologies.part import Part
from workloads import kinds
from workloads.buckets import Gradient
from workloads.kinds.hybrid.schemes import planned
from workloads.parallel.operators import FLOAT_BYTES, Model
from workloads.parallel.strategy import gradients, read
from workloads.plan import Plan
from workloads.sync.cost import Cost


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
    plan = planned(scheme, own, model, strategy)
    if part:
        plan = kinds.of(plan).placed(plan, part)
    kinds.verify(plan, topology)
    sent = _gradient(tuple(size // FLOAT_BYTES for size in gradients(model, strategy).values()))
    return sent, plan, kinds.cost(plan, topology, FLOAT_BYTES * sent.floats)


def _gradient(groups: tuple[int, ...]) -> Gradient:
    """Those of each group, in floats, which leave together when all passes are done."""
    return Gradient(groups, (range(1),), ((0, sum(groups)),))
