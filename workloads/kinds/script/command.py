"""The kind of a command without a scheme: its processes synchronise by themselves, and report nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.topologies.model import Topology
from testbed.workloads.kinds.base import KindOfForests, Refusal
from testbed.workloads.kinds.forest.sharing import AloneSharing
from testbed.workloads.kinds.parts import Program, Unknown
from testbed.workloads.kinds.script.themselves import Themselves, command, free
from testbed.workloads.sync.cost import Cost
from testbed.workloads.sync.forest import Forest

_COMPUTES = Refusal(
    "a command computes by itself, and testbed cannot slow it down from within", "slow its host down with kind: hog"
)
_COUNTS = Refusal("a command's iterations are not known", "write a time, such as at: 3 s")


class CommandProgram(Program[Forest]):
    """A rank on each host."""

    def own_plan(self, topology: Topology) -> Forest:
        return command(topology)


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
        return free(topology)

    def meet(self, plan: Forest) -> Sequence[int]:
        return plan.workers

    def wrote(self, record: Mapping[str, Any]) -> bool:
        return record.get("kind") == self.name


KIND = CommandKind()
