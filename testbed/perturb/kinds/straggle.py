"""``straggle``: workers that are slow by chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from testbed.base.groups import Share
from testbed.perturb.kinds.base import Slowdown, Slowing

if TYPE_CHECKING:
    from testbed.perturb.stragglers import Stragglers, Workers


class Straggle(Slowing):
    """In each iteration each worker has a chance of computing ``slowdown`` times as long."""

    kind: Literal["straggle"]
    probability: Share = Field(examples=["10 %"])
    """The probability, for each worker and iteration."""
    slowdown: Slowdown
    """The factor by which the time of computing grows."""

    def lengthen(self, drawn: Stragglers, workers: Workers, random: np.random.Generator) -> None:
        chosen = workers.chosen(self.workers)
        slowed = random.random(drawn.factor.shape) < self.probability
        drawn.factor[chosen] *= np.where(slowed, self.slowdown, 1.0)[chosen]
