"""Turns of workers: which of them may get weights and begin another iteration. Pure logic, no I/O.

A trial has as many updates as iterations times workers, as a synchronous one has gradients. Which worker makes them is
not given: whoever is faster makes more of them. One that is dropped counts, too: it was computed, and its worker goes
on. Once no iteration is left to begin, workers wait for the last update, and all end with the same weights.

A worker that is lost waits for nothing, and nobody waits for it. What it would still have had to do, had all done as
much, is not done; nor is what it had begun.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
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
    """The workers that wait, and how many iterations each has done."""

    def __init__(self, world: int, updates: int, staleness: int | None) -> None:
        """Set up for ``updates`` updates in all, at least one a worker; ``staleness`` is SSP's s, None for no bound.

        Every worker has the initial weights, and begins at once.
        """
        if updates < world:
            raise ValueError(f"{updates} updates for {world} workers")
        self._begun, self._done = [1] * world, [0] * world
        self._lost: set[int] = set()
        self._waiting: dict[int, float] = {}
        self._left = updates - world
        self._updates, self._staleness = updates, staleness

    @classmethod
    def resumed(
        cls, done: Sequence[int], waiting: Container[int], updates: int, staleness: int | None, now_s: float
    ) -> Turns:
        """Return the turns with a server that was started again: the workers that are ``waiting`` do so from now on,
        and all others compute. ``done`` is of how many updates of each worker the fate is decided."""
        turns = cls(len(done), updates, staleness)
        turns._waiting = {rank: now_s for rank, _ in enumerate(done) if rank in waiting}
        turns._done, turns._begun = list(done), [count + (rank not in waiting) for rank, count in enumerate(done)]
        turns._left = max(0, updates - sum(turns._begun))
        return turns

    @property
    def is_complete(self) -> bool:
        """Whether the fate of every update is known."""
        return self._left == 0 and all(self._begun[rank] == self._done[rank] for rank in self._living)

    @property
    def _living(self) -> list[int]:
        return [rank for rank in range(len(self._done)) if rank not in self._lost]

    def lose(self, rank: int) -> None:
        """Note that a worker is lost."""
        if rank not in self._lost:
            self._lost.add(rank)
            self._waiting.pop(rank, None)
            share = self._updates // len(self._done) - self._begun[rank]
            self._left = max(0, self._left - max(0, share))

    def decided(self, rank: int, now_s: float) -> None:
        """Note that the fate of a worker's update is known, so that the worker waits for weights."""
        if rank in self._waiting:
            raise ValueError(f"worker {rank} waits already")
        self._done[rank] += 1
        if rank not in self._lost:
            self._waiting[rank] = now_s

    def give(self, rank: int, goes_on: bool) -> None:
        """Note that another process has given a worker its turn."""
        self._waiting.pop(rank, None)
        self._begun[rank] += goes_on
        self._left = max(0, self._left - goes_on)

    def taken(self, now_s: float) -> list[Turn]:
        """Take the turns that have come, in the order in which the workers began to wait."""
        if self.is_complete:
            found = list(self._waiting)
        else:
            slowest = min(self._done[rank] for rank in self._living)
            most = math.inf if self._staleness is None else slowest + self._staleness
            found = [rank for rank in self._waiting if self._done[rank] <= most][: self._left]
            self._left -= len(found)
            for rank in found:
                self._begun[rank] += 1
        return [Turn(rank, not self.is_complete, now_s - self._waiting.pop(rank)) for rank in found]
