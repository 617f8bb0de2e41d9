"""The phases of a trial: iterations that the same workers did along the same forest. One, unless nodes died."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.trials import Network


@dataclass(frozen=True)
class Phase:
    """Iterations ``first`` to ``stop`` - 1."""

    first: int
    stop: int
    network: Network

    @property
    def iterations(self) -> int:
        return self.stop - self.first


def split(changes: Sequence[tuple[int, Network]], iterations: int) -> tuple[Phase, ...]:
    """``changes`` are (first iteration, network) in order; one that another replaced before any iteration is left out.

    Of a trial that was over when the last node died, what it would have gone on with is left out, too.
    """
    stops = [first for first, _ in changes[1:]] + [iterations]
    return tuple(
        Phase(first, stop, network) for (first, network), stop in zip(changes, stops, strict=True) if first < stop
    )


def link_bytes(phases: Sequence[Phase]) -> NDArray[np.float64]:
    """float64[directed links]: bytes of gradient on each link in all iterations of all phases."""
    total: NDArray[np.float64] = np.sum([phase.network.cost.link_bytes * phase.iterations for phase in phases], axis=0)
    return total


def wire_bytes(phases: Sequence[Phase]) -> float:
    """What all nodes together send in all iterations of all phases."""
    return float(sum(phase.network.cost.wire_bytes * phase.iterations for phase in phases))


def contributions(phases: Sequence[Phase]) -> int:
    """Gradients that were summed: one a worker and iteration."""
    return sum(phase.network.world * phase.iterations for phase in phases)
