"""``jitter``: computing, or steps of a synchronisation, that take longer by chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from testbed.base.groups import Time
from testbed.perturb import targets
from testbed.perturb.kinds.base import COMPUTING, STEPS, OfWorkers
from topologies.model import Topology

if TYPE_CHECKING:
    from testbed.perturb.stragglers import Stragglers, Workers


class Jitter(OfWorkers):
    """A normal distribution's positive half is added to the time of each iteration's computing, or of each step of a
    synchronisation (Rina equation 3): nothing becomes faster."""

    kind: Literal["jitter"]
    sigma_s: Time = Field(alias="sigma", gt=0, examples=["20 ms"])
    of: Literal["iteration", "step"] = "iteration"

    @property
    def effects(self) -> frozenset[str]:
        return frozenset({STEPS if self.of == "step" else COMPUTING})

    def lengthen(self, drawn: Stragglers, workers: Workers, random: np.random.Generator) -> None:
        chosen = workers.chosen(self.workers)
        drawn.extra_s[chosen] += np.maximum(random.normal(0.0, self.sigma_s, drawn.extra_s.shape), 0.0)[chosen]

    def step_sigma_s(self, topology: Topology) -> Mapping[int, float]:
        """The engine draws for each step (:mod:`workloads.sync.steps`)."""
        return dict.fromkeys(targets.hosts(topology, self.workers), self.sigma_s) if self.of == "step" else {}
