"""Iterations along a forest in simulated time, as a part of its kind of trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from testbed.workloads.kinds.parts import Simulation
from testbed.workloads.play.synchronisation import Synchronisation, synchronisation
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.forest import Forest

if TYPE_CHECKING:
    from testbed.workloads.learning.buckets import Gradient


class ForestSimulation(Simulation[Forest]):
    """Decisions of our engine."""

    overlaps = ("none", "layer", "both")
    priorities = ("none", "layer")
    is_of_trees = True

    def knows(self, plan: Forest) -> bool:
        return True

    def messages(self, plan: Forest, chunks: tuple[Gradient, int]) -> int:
        return count(plan, chunks)

    def synchronisation(self, plan: Forest, chunks: tuple[Gradient, int]) -> Synchronisation:
        gradient, chunk_bytes = chunks
        return synchronisation(plan, cut(plan, gradient.floats, gradient.buckets, chunk_bytes))


def count(forest: Forest, chunks: tuple[Gradient, int]) -> int:
    """Count the messages of a synchronisation of a gradient in chunks of so many bytes."""
    gradient, chunk_bytes = chunks
    klass = cut(forest, gradient.floats, gradient.buckets, chunk_bytes).klass
    edges = np.count_nonzero(forest.reduce >= 0, axis=1) + np.count_nonzero(forest.broadcast >= 0, axis=1)
    return int(np.bincount(klass, minlength=forest.classes) @ edges)
