"""Iterations along a forest in simulated time, as a part of its kind of trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from testbed.workloads.kinds.parts import Simulation
from testbed.workloads.play.actor import Actor
from testbed.workloads.play.synchronisation import Synchronisation
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.forest import Forest

if TYPE_CHECKING:
    from testbed.workloads.learning.buckets import Gradient


class ForestSimulation(Simulation[Forest]):
    """Decisions of our engine."""

    is_known = True

    def messages(self, plan: Forest, chunks: tuple[Gradient, int]) -> int:
        gradient, chunk_bytes = chunks
        klass = cut(plan, gradient.floats, gradient.buckets, chunk_bytes).klass
        edges = np.count_nonzero(plan.reduce >= 0, axis=1) + np.count_nonzero(plan.broadcast >= 0, axis=1)
        return int(np.bincount(klass, minlength=plan.classes) @ edges)

    def actor(
        self, plan: Forest, chunks: tuple[Gradient, int], ready_s: NDArray[np.float64], start_s: NDArray[np.float64]
    ) -> Actor:
        gradient, chunk_bytes = chunks
        return Synchronisation(plan, cut(plan, gradient.floats, gradient.buckets, chunk_bytes), ready_s, start_s)
