"""Decision on an order of ranks from the distances that hosts have probed (PHub thesis, section 5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from testbed.topologies.call import Call
from testbed.workloads.finding import Decided
from testbed.workloads.ranks.costs import Cost, Distances, Floats, Priced
from testbed.workloads.ranks.orders import MICROSECOND, find


def cost_of(scheme: Call) -> Call | None:
    """Return the cost model of a scheme's collective; None if there is none."""
    algorithm = scheme.arguments.get("algorithm", "allreduce")
    if scheme.name == "openmpi":
        name = {"ring": "ring", "segmented_ring": "ring", "rabenseifner": "halving_doubling"}.get(str(algorithm))
        return Call(name, {}) if name else None
    if scheme.name in ("ring", "gloo"):
        return Call("ring", {}) if algorithm == "allreduce" else None
    if scheme.name == "bcube":
        return Call("bcube", scheme.arguments)
    return Call(scheme.name, {}) if scheme.name in ("halving_doubling", "double_binary_tree") else None


def decide(
    names: Sequence[str],
    measured: Mapping[str, Sequence[float | None]],
    seed: int,
    *,
    cost: Cost,
    percentile: float,
    size_bytes: float,
) -> Decided:
    """Find the order whose cost is ``percentile`` of the way from the best order's, 0, to the worst one's, 100.

    Args:
        measured: round trips (s) from each host to all, in the order of these hosts; after them, if both were probed,
            the seconds per bit. A pair without an answer costs as much as the dearest one.
    """
    hosts = list(measured)
    at = np.array([hosts.index(name) for name in names])
    rows = np.array([measured[name] for name in names], dtype=np.float64)
    per_byte = 8 * _filled(rows[:, len(hosts) + at]) if rows.shape[1] > len(hosts) else None
    distances = Distances.larger(_filled(rows[:, at]) / 2, per_byte)
    result = find(Priced(cost, distances, size_bytes), percentile, MICROSECOND, seed)
    order = [names[host] for host in result.order]
    costs_s = {f"{name}_s": getattr(result, name) for name in ("cost", "by_number", "best", "worst", "bound")}
    more = {"proven": result.proven, "note": result.note, "took_s": result.took_s}
    return Decided({"order": f"[{','.join(order)}]"}, {"order": order, **costs_s, **more})


def _filled(distances: Floats) -> Floats:
    filled: Floats = np.where(np.isnan(distances), np.nanmax(distances), distances)
    return filled
