"""Forests of the hosts that are left when nodes die."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from testbed.topologies.model import Topology
from testbed.workloads.kinds.parts import Repair
from testbed.workloads.sync.forest import Forest


class ForestRepair(Repair[Forest]):
    """New trees, of schemes that have a function for them (:func:`testbed.workloads.sync.schemes.repair`)."""

    def goes_on(self, plan: Forest) -> bool:
        from testbed.workloads.sync.schemes import repairable  # which imports the schemes of all kinds

        return repairable(plan.scheme)

    def without(self, plan: Forest, topology: Topology, tensor_sizes: Sequence[int], dead: Collection[int]) -> Forest:
        from testbed.workloads.sync.schemes import repair

        return repair(plan.scheme, topology, tensor_sizes, dead)
