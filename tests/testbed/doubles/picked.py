"""A scheme that leaves to each trial whether it is ``ps`` or ``ring``: the very example of docs/extend/finding.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from testbed.topologies.model import Topology
from testbed.workloads.finding import Finding
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes.ring import ring


def picked(
    topology: Topology,
    tensor_sizes: Sequence[int],
    *,
    alike: float = 0.8,
) -> Forest:
    """A ring if all links have similar rates, and a server otherwise.

    Until links are measured, the plan is a ring.
    """
    del alike
    return ring(topology, tensor_sizes)


def chosen(
    names: Sequence[str],
    rates_bps: Mapping[str, Sequence[float]],
    alike: float,
) -> dict[str, str]:
    """Take a ring if the slowest host has at least ``alike`` of the fastest's rate."""
    each_bps = [sum(rates_bps[name]) for name in names]
    return {"scheme": "ring" if min(each_bps) >= alike * max(each_bps) else "ps"}


def decides(*, alike: float = 0.8) -> Finding | None:
    """Return what hosts measure and what decides; or None, if it is always a ring."""
    if alike <= 0:
        return None
    return Finding("rates", lambda names, rates_bps, _: chosen(names, rates_bps, alike))


picked.decides = decides  # type: ignore[attr-defined]
