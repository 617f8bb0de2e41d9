"""Steps of workers that come before their sums, as tables for the player: passes of operators, or rounds of a library.

A worker takes one step at a time, in the order in which all that they need is there. At its end a step gives messages,
each to one step of the same iteration, on another worker or on its own. A message may come before its receiver has
begun the iteration, and then waits for that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]

FORWARD, BACKWARD, SUMS = range(3)
"""Phases of steps. The gradient is ready when the last step is done that is not of ``SUMS``."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of an iteration: S steps, sorted by worker, and M messages, sorted by the step that gives them.

    Attributes:
        rank: int32[S], the worker.
        phase: int32[S], of :data:`FORWARD`, :data:`BACKWARD`, :data:`SUMS`.
        share: float64[S], the share of a worker's pace for which a step takes.
        then: int32[S], a step of the same worker that needs this one as well; -1 for none.
        giver, taker: int32[M], steps.
        message_bytes: float64[M].
    """

    rank: Numbers
    phase: Numbers
    share: NDArray[np.float64]
    then: Numbers
    giver: Numbers
    taker: Numbers
    message_bytes: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rank)

    @property
    def needs(self) -> Numbers:
        """int32[S], of how many messages and steps each is in need."""
        asked = np.concatenate([self.taker, self.then[self.then >= 0]])
        return np.bincount(asked, minlength=len(self)).astype(np.int32)

    @property
    def ends(self) -> NDArray[np.int64]:
        """int64[M, 2], the ranks between which each message goes."""
        return np.stack([self.rank[self.giver], self.rank[self.taker]], axis=1).astype(np.int64)

    def times_s(self, pace_s: float, factor: NDArray[np.float64], extra_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how long (s) steps take, float64[iterations, S + workers]: each step, and then how much longer the
        first that each worker takes; ``factor`` and ``extra_s`` are float64[workers, iterations]."""
        return np.hstack([factor.T[:, self.rank] * self.share * pace_s, extra_s.T])

    def soonest_s(self, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return when a step of each worker can end at the soonest, float64[workers]: infinite of those that first need
        messages of others. ``times_s`` are those of an iteration (:meth:`times_s`)."""
        soonest_s = np.full(len(times_s) - len(self), np.inf)
        soonest_s[np.bincount(self.rank, minlength=len(soonest_s)) == 0] = 0.0
        is_first = self.needs == 0
        np.minimum.at(soonest_s, self.rank[is_first], times_s[: len(self)][is_first])
        return soonest_s


def no_steps() -> Steps:
    """Return the steps of workers that have none."""
    none = np.zeros(0, np.int32)
    return Steps(none, none, np.zeros(0), none, none, none, np.zeros(0))
