"""A plan as JSON, besides its forest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from testbed.workloads.kinds.hybrid.plan import Plan
from testbed.workloads.kinds.hybrid.program.cut import messages
from testbed.workloads.kinds.hybrid.program.layout import layout
from testbed.workloads.parallel.operators import Model, Operator
from testbed.workloads.parallel.strategy import Strategy
from testbed.workloads.sync.forest import Forest


def of(plan: Plan) -> dict[str, Any]:
    """Return all of a plan but its forest, as JSON."""
    model = plan.model
    return {
        "model": {"name": model.name, "samples": model.samples, "operators": [asdict(one) for one in model.operators]},
        "holders": plan.strategy.holders,
        "rings": [[members, [list(order) for order in orders]] for members, orders in plan.rings.items()],
    }


def plan(told: Mapping[str, Any], forest: Forest) -> Plan:
    """Rebuild the plan that :func:`of` took apart."""
    model = told["model"]
    operators = tuple(
        Operator(**{**one, "inputs": tuple(one["inputs"]), "tensors": tuple(one["tensors"])})
        for one in model["operators"]
    )
    whole = Model(model["name"], operators, model["samples"])
    strategy = Strategy(len(forest.workers), tuple(map(tuple, told["holders"])))
    rings = {tuple(members): orders for members, orders in told["rings"]}
    return Plan(whole, strategy, forest, rings, messages(whole, strategy), layout(whole, strategy))
