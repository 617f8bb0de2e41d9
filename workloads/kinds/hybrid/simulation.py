"""Iterations under a strategy in simulated time: the passes of servers, and then AllReduces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.workloads.kinds.forest.kind import count
from testbed.workloads.kinds.hybrid.plan import Plan
from testbed.workloads.kinds.hybrid.program.pace import step_s
from testbed.workloads.kinds.parts import Simulation
from testbed.workloads.play.steps import BACKWARD, FORWARD, Steps
from testbed.workloads.play.synchronisation import Synchronisation, synchronisation
from testbed.workloads.sync.chunks import cut

if TYPE_CHECKING:
    from testbed.workloads.learning.buckets import Gradient

PHASES = {"forward": FORWARD, "backward": BACKWARD}


class HybridSimulation(Simulation[Plan]):
    """Decisions of servers about their passes (:class:`.agenda.Agenda`), and of the engine."""

    message_s = 5e-5
    """30 to 70 us with 128 hosts."""

    def knows(self, plan: Plan) -> bool:
        return True

    def messages(self, plan: Plan, chunks: tuple[Gradient, int]) -> int:
        return len(plan.messages) + count(plan.forest, chunks)

    def synchronisation(self, plan: Plan, chunks: tuple[Gradient, int]) -> Synchronisation:
        gradient, chunk_bytes = chunks
        table = cut(plan.forest, gradient.floats, gradient.buckets, chunk_bytes)
        return synchronisation(plan.forest, table, passes(plan))

    def iteration(self, waited_s: tuple[float, ...]) -> Mapping[str, Any]:
        return {"mp_wait_forward_s": waited_s[FORWARD], "mp_wait_backward_s": waited_s[BACKWARD], "late_s": 0.0}

    def done(self, sent_bytes: Mapping[int, int]) -> Mapping[str, Any]:
        return {"payload_bytes": {str(node): sent for node, sent in sent_bytes.items()}}


def passes(plan: Plan) -> Steps:
    """Make the tables of the steps of all servers."""
    every = [(rank, step) for rank, own in enumerate(plan.steps) for step in own]
    taker = {message.number: at for at, (_, step) in enumerate(every) for message in step.needs}
    given = [(at, message) for at, (_, step) in enumerate(every) for message in step.gives]
    backward = {(rank, step.place): at for at, (rank, step) in enumerate(every) if step.phase == "backward"}
    then = [backward[rank, step.place] if step.ends and step.phase == "forward" else -1 for rank, step in every]
    return Steps(
        rank=np.array([rank for rank, _ in every], np.int32),
        phase=np.array([PHASES[step.phase] for _, step in every], np.int32),
        share=np.array([step_s(plan.model, step, 1.0) for _, step in every]),
        then=np.array(then, np.int32),
        giver=np.array([at for at, _ in given], np.int32),
        taker=np.array([taker[message.number] for _, message in given], np.int32),
        message_bytes=np.array([message.bytes for _, message in given], float),
    )
