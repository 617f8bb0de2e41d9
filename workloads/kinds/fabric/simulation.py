"""Updates that a scheduler plans, in simulated time, as a part of their kind of trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.workloads.kinds.fabric.plan import Fabric
from testbed.workloads.kinds.parts import Iterations, Simulation, TellLines

if TYPE_CHECKING:
    from testbed.workloads.learning.buckets import Gradient
    from testbed.workloads.play.wires import Wires

NOTES = 6
"""Notes about a transfer, about."""


class FabricSimulation(Simulation[Fabric]):
    """Decisions of a trial that is scheduled, message by message; ``makes_sums`` says that servers make sums."""

    overlaps = ("none",)
    is_by_message = True
    message_s = 6e-5
    """With what the scheduler takes for it: 42 to 110 us with 30 to 128 workers."""

    def __init__(self, *, makes_sums: bool) -> None:
        self._makes_sums = makes_sums

    def knows(self, plan: Fabric) -> bool:
        return True

    def messages(self, plan: Fabric, chunks: tuple[Gradient, int]) -> int:
        """Count notes and pieces of floats of an update and weights of each worker, straight, and of an update for the
        replica."""
        from testbed.workloads.kinds.fabric.played_transfers import FIRST, LAST

        moved = 2 * len(plan.servers) + (plan.replica is not None)
        return moved * (FIRST + LAST + NOTES) * len(plan.workers)

    def begin(self, plan: Fabric, asked: Iterations, wires: Wires) -> TellLines:
        from testbed.workloads.kinds.fabric.played import Played

        return Played(plan, asked, wires, makes_sums=self._makes_sums).lines
