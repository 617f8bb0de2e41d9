"""``slow``: workers that are always slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from testbed.perturb.kinds.base import Names, Slowdown, Slowing

if TYPE_CHECKING:
    from testbed.perturb.stragglers import Stragglers, Workers


class Slow(Slowing):
    """Some workers always compute ``slowdown`` times as long."""

    kind: Literal["slow"]
    workers: Names = Field(examples=["[h0]"])
    """The hosts of the slow workers."""
    slowdown: Slowdown
    """The factor by which the time of computing grows."""

    def lengthen(self, drawn: Stragglers, workers: Workers, random: np.random.Generator) -> None:
        del random
        drawn.factor[workers.chosen(self.workers)] *= self.slowdown
