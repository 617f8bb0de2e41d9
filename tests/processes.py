"""Connections of processes, by node."""

from __future__ import annotations

from testbed.workloads import kinds
from testbed.workloads.plan import Plan


def met(plan: Plan, node: int) -> list[int]:
    """Return the nodes with which the process of a node that has the node's name is connected."""
    (process,) = (each for each in kinds.of(plan).processes(plan) if each.name == plan.nodes[node])
    return [plan.nodes.index(other) for other in process.meets]
