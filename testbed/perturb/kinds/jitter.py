"""``jitter``: computing, or steps of a synchronisation, that take longer by chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from testbed.base.groups import Time
from testbed.perturb import targets
from testbed.perturb.kinds.base import COMPUTING, STEPS, OfWorkers
from testbed.topologies.model import Topology

if TYPE_CHECKING:
    from testbed.perturb.stragglers import Stragglers, Workers


class Jitter(OfWorkers):
    """A random time is added to the computing of each iteration, or to each step of a synchronisation (Rina equation
    3). It is drawn from the positive half of a normal distribution, so nothing becomes faster."""

    kind: Literal["jitter"]
    sigma_s: Time = Field(alias="sigma", gt=0, examples=["20 ms"])
    """The standard deviation of the normal distribution."""
    of: Literal["iteration", "step"] = "iteration"
    """``iteration``: the computing of each iteration takes longer. ``step``: each step of a synchronisation does."""

    @property
    def effects(self) -> frozenset[str]:
        return frozenset({STEPS if self.of == "step" else COMPUTING})

    def lengthen(self, drawn: Stragglers, workers: Workers, random: np.random.Generator) -> None:
        chosen = workers.chosen(self.workers)
        drawn.extra_s[chosen] += np.maximum(random.normal(0.0, self.sigma_s, drawn.extra_s.shape), 0.0)[chosen]

    def step_sigma_s(self, topology: Topology) -> Mapping[int, float]:
        """Standard deviation by host (s). The engine draws for each step (:mod:`testbed.workloads.sync.steps`)."""
        return dict.fromkeys(targets.hosts(topology, self.workers), self.sigma_s) if self.of == "step" else {}
