"""Connections of processes, by node."""

from __future__ import annotations

from testbed.workloads import kinds
from testbed.workloads.plan import Plan


def met(plan: Plan, node: int) -> list[int]:
    """Return the nodes that a node's own process is connected with; none if it has no process."""
    named = (each for each in kinds.of(plan).processes(plan) if each.name == plan.nodes[node])
    return [plan.nodes.index(other) for process in named for other in process.meets]
