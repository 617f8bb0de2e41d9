"""Gloo's AllReduce in simulated time, as a part of its kind of trial.

Each rank sends to the one before, a segment after the other: those of a reduce-scatter, then those of an allgather. Two
are under way at a time, for a segment is sent when the one that came two before it has been added. Adding takes no
time, and Gloo's wait for what it has sent is not played: TCP takes a segment at once here.

Source: Gloo, gloo/allreduce.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from testbed.workloads.kinds.library.plan import library_of
from testbed.workloads.kinds.parts import Simulation
from testbed.workloads.play.steps import BACKWARD, SUMS, Steps
from testbed.workloads.play.synchronisation import Synchronisation, only_steps
from testbed.workloads.sync.chunks import FLOAT_BYTES
from testbed.workloads.sync.forest import Forest

if TYPE_CHECKING:
    from testbed.workloads.learning.buckets import Gradient

MOST_BYTES = 2**20
"""Longest segment."""
IN_FLIGHT = 2
"""Segments that are under way at a time."""


class GlooSimulation(Simulation[Forest]):
    """Decisions of Gloo's AllReduce. It has all buckets at once, so none may leave early. Of other algorithms, and of
    Open MPI, they are not known."""

    overlaps = ("none",)

    def knows(self, plan: Forest) -> bool:
        library = library_of(plan)
        return (library.name, library.algorithm) == ("gloo", "allreduce")

    def messages(self, plan: Forest, chunks: tuple[Gradient, int]) -> int:
        world = len(plan.workers)
        count, _ = _segments(world, chunks[0].floats)
        return 2 * (world - 1) * count

    def synchronisation(self, plan: Forest, chunks: tuple[Gradient, int]) -> Synchronisation:
        return only_steps(len(plan.nodes), plan.workers, rounds(len(plan.workers), chunks[0].floats))


def rounds(world: int, floats: int) -> Steps:
    """Make the tables of ranks that compute, and then take each turn of Gloo's two loops as a step."""
    count, size_bytes = _segments(world, floats)
    sent = count - count // world
    turns = sent + IN_FLIGHT
    each = 1 + 2 * turns  # steps of a rank: it computes, and takes the turns of two loops
    rank, step = np.divmod(np.arange(world * each), each)
    loop, turn = np.divmod(step - 1, turns)  # computing is no turn: its loop is -1
    first = (rank + 1 - loop) * (count // world) + turn
    nbytes = np.clip(FLOAT_BYTES * floats - first % count * size_bytes, 0, size_bytes)
    giver = np.flatnonzero((loop >= 0) & (turn < sent) & (nbytes > 0))
    receiver = (rank[giver] - 1) % world
    return Steps(
        rank=rank.astype(np.int32),
        phase=np.where(step == 0, BACKWARD, SUMS).astype(np.int32),
        share=(step == 0).astype(float),
        then=np.where(step < each - 1, np.arange(world * each) + 1, -1).astype(np.int32),
        giver=giver.astype(np.int32),
        taker=(receiver * each + step[giver] + IN_FLIGHT).astype(np.int32),
        message_bytes=nbytes[giver].astype(float),
    )


def _segments(world: int, floats: int) -> tuple[int, int]:
    """Return the number of segments, as many for each rank, and the bytes of a whole one."""
    total = FLOAT_BYTES * floats
    count = max(-(-total // MOST_BYTES), IN_FLIGHT * world)
    count = -(-count // world) * world
    return count, -(-total // (count * FLOAT_BYTES)) * FLOAT_BYTES
