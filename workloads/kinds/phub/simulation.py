"""Keys to the cores of boxes and back in simulated time, as a part of their kind of trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.workloads.kinds.parts import Iterations, Simulation, TellLines
from testbed.workloads.kinds.phub.plan import Plan

if TYPE_CHECKING:
    from testbed.workloads.learning.buckets import Gradient
    from testbed.workloads.play.wires import Wires


class BoxSimulation(Simulation[Plan]):
    """Decisions of workers and cores, message by message."""

    overlaps = ("none",)
    is_by_message = True
    message_s = 2e-5

    def knows(self, plan: Plan) -> bool:
        return True

    def messages(self, plan: Plan, chunks: tuple[Gradient, int]) -> int:
        """Count keys from workers, values to them, and sums between boxes."""
        across = len(plan.boxes) - 1 if plan.homes else 0
        return 2 * (len(plan.workers) + across) * len(plan.keys)

    def begin(self, plan: Plan, asked: Iterations, wires: Wires) -> TellLines:
        from testbed.workloads.kinds.phub.played import Played

        return Played(plan, asked, wires).lines
