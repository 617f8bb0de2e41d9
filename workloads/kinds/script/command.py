"""The kind of a command without a scheme: its processes synchronise by themselves, and report nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from testbed.topologies.model import Topology
from testbed.workloads.kinds.base import KindOfForests, Refusal
from testbed.workloads.kinds.forest.kind import AloneSharing
from testbed.workloads.kinds.parts import Program, Unknown
from testbed.workloads.sync.cost import Cost
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes.reference import one_nic

_COMPUTES = Refusal(
    "a command computes by itself, and testbed cannot slow it down from within", "slow its host down with kind: hog"
)
_COUNTS = Refusal("a command's iterations are not known", "write a time, such as at: 3 s")


@dataclass(frozen=True)
class Themselves:
    """Mark of a plan whose ranks synchronise by themselves, whatever way they like."""

    kind: ClassVar[str] = "command"


class CommandProgram(Program[Forest]):
    """A rank on each host."""

    def own_plan(self, topology: Topology) -> Forest:
        """Make a forest without classes.

        Raises:
            SchemeError: a host has several NICs, of which the ranks would not know.
        """
        one_nic("a command", topology)
        none = np.empty((0, len(topology.nodes)), np.int32)
        names = tuple(node.name for node in topology.nodes)
        workers = tuple(topology.hosts)
        return Forest("command", names, workers, np.empty(0, np.int64), none, none, run_by=Themselves())


class CommandUnknown(Unknown[Forest]):
    """Facts about what a command sends."""

    def bytes(self, plan: Forest) -> str:
        return "what a command sends is its own affair"

    load = bytes


class CommandKind(KindOfForests):
    """Any script that torchrun could start."""

    name = "command"
    run_by = Themselves
    program = CommandProgram()
    unknown = CommandUnknown()
    sharing = AloneSharing()
    connections = None
    sums_together = False

    def cannot(self, plan: Forest) -> Mapping[str, Refusal]:
        return {"computing": _COMPUTES, "steps": _COMPUTES, "iterations": _COUNTS}

    def cost(self, plan: Forest, topology: Topology, gradient_bytes: float) -> Cost:
        rates = np.array(topology.rates_bps)
        return Cost(0, 0.0, 0.0, np.zeros_like(rates), rates)  # nothing is known of what the command sends

    def meet(self, plan: Forest) -> Sequence[int]:
        return plan.workers

    def wrote(self, record: Mapping[str, Any]) -> bool:
        return record.get("kind") == self.name


KIND = CommandKind()
