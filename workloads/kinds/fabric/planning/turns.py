"""Whose turn it is: which workers may get weights and begin another iteration. Pure logic, no I/O.

A trial has as many updates as iterations times workers, as a synchronous one has gradients. Which worker makes them is
not given: whoever is faster makes more of them. One that is dropped counts, too: it was computed, and its worker goes
on. Once no iteration is left to begin, workers wait for the last update, and all end with the same weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """A worker that gets the newest weights; to compute another update, or, as all are there, to end.

    Attributes:
        held_s: for how long they were held back, because the worker was too far ahead or no iteration was left.
    """

    rank: int
    goes_on: bool
    held_s: float = 0.0


class Turns:
    """Who waits, and who has done how many iterations."""

    def __init__(self, world: int, updates: int, staleness: int | None) -> None:
        """``updates`` is how many there are in all, at least one a worker; ``staleness`` is SSP's s, None for no bound.

        Every worker has the initial weights, and begins at once.
        """
        if updates < world:
            raise ValueError(f"{updates} updates for {world} workers")
        self._done = [0] * world
        self._waiting: dict[int, float] = {}
        self._left = updates - world
        self._updates, self._staleness = updates, staleness

    @property
    def is_complete(self) -> bool:
        """Whether it is known of every update what became of it."""
        return sum(self._done) == self._updates

    def decided(self, rank: int, now_s: float) -> None:
        """It is known what became of a worker's update, so that it waits for weights."""
        if rank in self._waiting:
            raise ValueError(f"worker {rank} waits already")
        self._done[rank] += 1
        self._waiting[rank] = now_s

    def taken(self, now_s: float) -> list[Turn]:
        """Whose turn it is, in the order in which they began to wait."""
        if self.is_complete:
            found = list(self._waiting)
        else:
            most = math.inf if self._staleness is None else min(self._done) + self._staleness
            found = [rank for rank in self._waiting if self._done[rank] <= most][: self._left]
            self._left -= len(found)
        return [Turn(rank, not self.is_complete, now_s - self._waiting.pop(rank)) for rank in found]
