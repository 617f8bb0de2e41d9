"""The processes of a trial: their names, and the nodes on which they run."""

from __future__ import annotations

from workloads.sync.flows import pairs
from workloads.sync.forest import Forest


def processes(forest: Forest) -> dict[str, int]:
    """The node of each process, by the process's name: a worker for each rank, then one for each node that only passes
    chunks on. Each is its node's own, and has its name (:mod:`testbed.base.process_names`)."""
    inner = {node for pair in pairs(forest) for node in pair}
    return {forest.nodes[node]: node for node in (*forest.workers, *sorted(inner.difference(forest.workers)))}
