"""``straggle``: workers that are slow by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from testbed.base.groups import Number, Share
from testbed.perturb.kinds.base import COMPUTING, OfWorkers

if TYPE_CHECKING:
    from testbed.perturb.stragglers import Stragglers, Workers


class Straggle(OfWorkers):
    """In each iteration each worker has a chance of computing ``slowdown`` times as long."""

    kind: Literal["straggle"]
    probability: Share = Field(examples=["10 %"])
    slowdown: Number = Field(gt=1, le=1000, examples=["2"])

    multiplies_computing: ClassVar[bool] = True

    @property
    def effects(self) -> frozenset[str]:
        return frozenset({COMPUTING})

    @property
    def most_slowdown(self) -> float:
        return self.slowdown

    def lengthen(self, drawn: Stragglers, workers: Workers, random: np.random.Generator) -> None:
        chosen = workers.chosen(self.workers)
        slowed = random.random(drawn.factor.shape) < self.probability
        drawn.factor[chosen] *= np.where(slowed, self.slowdown, 1.0)[chosen]
