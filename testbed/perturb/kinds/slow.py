"""``slow``: workers that are always slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from testbed.base.groups import Number
from testbed.perturb.kinds.base import COMPUTING, Names, OfWorkers

if TYPE_CHECKING:
    from testbed.perturb.stragglers import Stragglers, Workers


class Slow(OfWorkers):
    """Some workers always compute ``slowdown`` times as long."""

    kind: Literal["slow"]
    workers: Names = Field(examples=["[h0]"])
    slowdown: Number = Field(gt=1, le=1000, examples=["2"])

    multiplies_computing: ClassVar[bool] = True

    @property
    def effects(self) -> frozenset[str]:
        return frozenset({COMPUTING})

    @property
    def most_slowdown(self) -> float:
        return self.slowdown

    def lengthen(self, drawn: Stragglers, workers: Workers, random: np.random.Generator) -> None:
        del random
        drawn.factor[workers.chosen(self.workers)] *= self.slowdown
