"""Extra time that each worker computes in each iteration, drawn before the trial starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from testbed.perturb import targets
from testbed.perturb.kinds.base import COMPUTING, Perturbation
from testbed.topologies.model import Topology


@dataclass(frozen=True, eq=False)
class Stragglers:
    """Slowdowns, float64[workers, iterations] each: computing takes ``factor`` times as long and ``extra_s`` more.

    Several perturbations multiply their factors and add their times.
    """

    factor: NDArray[np.float64]
    extra_s: NDArray[np.float64]


@dataclass(frozen=True)
class Workers:
    """The workers of a trial, with each one's rank by its host; ``folder`` is the spec's directory."""

    topology: Topology
    rank: Mapping[int, int]
    folder: Path

    def chosen(self, names: Sequence[str] | None) -> list[int]:
        """Ranks on these hosts; all where no names are given.

        Raises:
            SpecError: there is no such host.
        """
        return [self.rank[host] for host in targets.hosts(self.topology, names) if host in self.rank]


def draw(
    perturbations: Sequence[Perturbation],
    topology: Topology,
    workers: Sequence[int],
    iterations: int,
    seed: int,
    folder: Path,
) -> Stragglers | None:
    """Draw all slowdowns; each perturbation has random numbers of its own, so that adding one leaves the others as they
    were.

    None if nothing of this kind is among the perturbations.

    Raises:
        SpecError: it names a host that there is not, or a trace that cannot be read.
    """
    lengthening = [(number, one) for number, one in enumerate(perturbations) if COMPUTING in one.effects]
    if not lengthening:
        return None
    shape = (len(workers), iterations)
    whose = Workers(topology, {host: r for r, host in enumerate(workers)}, folder)
    drawn = Stragglers(np.ones(shape), np.zeros(shape))
    for number, one in lengthening:
        one.lengthen(drawn, whose, np.random.default_rng([seed, number]))
    return drawn
