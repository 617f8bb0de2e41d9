"""Updates of asynchronous schemes in simulated time, as a part of their kind of trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.workloads.kinds.asynchronous.plan import replicas, servers
from testbed.workloads.kinds.parts import Iterations, Simulation, TellLines
from testbed.workloads.sync.forest import Forest

if TYPE_CHECKING:
    from testbed.workloads.learning.buckets import Gradient
    from testbed.workloads.play.wires import Wires


class UpdatesSimulation(Simulation[Forest]):
    """Decisions of an asynchronous trial, message by message."""

    overlaps = ("none",)
    is_by_message = True
    message_s = 2e-5
    begins_within_s = 0.005
    """In the lab ``netns`` the last of five to seven workers began 1 to 9 ms after the first."""
    late_s = 0.0004
    """There an iteration's computing took 0.3 ms longer than the spec says, from the moment at which its worker had
    weights: in the median of 6,420 iterations, and more than 1.3 ms in 5 % and more than 3.8 ms in 1 % of them."""

    def knows(self, plan: Forest) -> bool:
        return True

    def messages(self, plan: Forest, chunks: tuple[Gradient, int]) -> int:
        """Count a note and floats, to a server and back, and to its replica."""
        return len(plan.workers) * len(servers(plan)) * (6 if replicas(plan) else 4)

    def begin(self, plan: Forest, asked: Iterations, wires: Wires) -> TellLines:
        from testbed.workloads.kinds.asynchronous.played import Played

        return Played(plan, asked, wires).lines
