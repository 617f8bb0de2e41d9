"""Orders of ranks that are found in a trial: which cost counts, and what hosts measure for it."""

from __future__ import annotations

from functools import partial

from testbed.base.errors import SpecError
from testbed.spec import Arm
from testbed.spec.rank_order import Sought, read
from testbed.topologies.call import Call, parse
from testbed.workloads.finding import Finding
from testbed.workloads.ranks.costs import COSTS, Cost, build
from testbed.workloads.ranks.probed import cost_of, decide


def sought(arm: Arm) -> Sought | None:
    """Return the order that an arm leaves to be found; None if it leaves none."""
    asked = read(arm.order) if isinstance(arm.order, str) else None
    return asked if isinstance(asked, Sought) else None


def cost(arm: Arm, asked: Sought, hosts: int) -> Cost:
    """Build the cost model that decides.

    Raises:
        SpecError: neither the arm nor its scheme says which it is, or it is not for so many hosts.
    """
    if asked.cost:
        return build(Call(asked.cost, {"base": asked.base} if asked.cost == "bcube" else {}), hosts)
    others = ", ".join(name for name in COSTS if name != "ring")
    fix = f"write {asked.name}({asked.first}cost=ring), or one of {others}"
    if not arm.scheme:
        raise SpecError(f"order: {asked.name} needs to know what the command does", fix=fix)
    model = cost_of(parse(arm.scheme, "ring"))
    if model is None:
        raise SpecError(f"order: {asked.name} has no cost for scheme {arm.scheme}", fix=fix)
    return build(model, hosts)


def finding(arm: Arm, asked: Sought, hosts: int, gradient_bytes: float, scale: float) -> Finding:
    """Return what hosts measure for an arm's order.

    Args:
        gradient_bytes: bytes that are reduced, if the order does not say how many.
        scale: divisor of rates, and so of the bytes that the order says.
    """
    size_bytes = asked.bytes / scale if asked.bytes else gradient_bytes
    decides = partial(decide, cost=cost(arm, asked, hosts), percentile=asked.percentile, size_bytes=size_bytes)
    return Finding(asked.model, decides, "the order of numbers")
