"""What an asynchronous parameter server decides: whose update came when, and who may go on. Pure logic, no I/O.

A *version* is how many updates the weights contain. A worker computes a gradient on the version that it was last given;
the server applies gradients in the order in which they come, each for itself. An update's *staleness* is the difference
between the version it is applied to and the one it was computed on: how many updates of others came in between
(MLfabric, section 2, where it is called delay).

Stale synchronous parallel (Ho et al., NIPS 2013, section 2): a worker that has done c iterations begins the next one
only if the slowest worker has done c - s or more. Then an update is at most (2s + 1)(N - 1) versions stale: when a
worker with c iterations gets its weights every other one has done c - s or more, and none gets beyond c + s + 1 while
that worker computes.

A trial has as many updates as iterations times workers, as a synchronous one has gradients. Which worker makes them is
not given: whoever is faster makes more of them. So a slow worker holds up nobody but, with SSP, those far ahead of it.
Once no iteration is left to begin, workers wait for the last update, and all end with the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.base.errors import WorkerError
from workloads.updates import Update


@dataclass(frozen=True)
class Release:
    """A worker that gets the newest weights now; to compute another gradient, or, as all updates are there, to end."""

    rank: int
    goes_on: bool


class Ledger:
    """Updates in the order in which they are applied.

    Attributes:
        order: all updates so far.
        given: by rank, the version of the weights that it was last given.
    """

    def __init__(self, world: int, updates: int, staleness: int | None) -> None:
        """``updates`` is how many there are in all, at least one a worker; ``staleness`` is SSP's s, None for no bound.

        Every worker has the initial weights, and begins at once.
        """
        if updates < world:
            raise ValueError(f"{updates} updates for {world} workers")
        self.order: list[Update] = []
        self.given = [0] * world
        self._done = [0] * world
        self._waiting: list[int] = []
        self._left = updates - world
        self._updates, self._staleness = updates, staleness

    @property
    def version(self) -> int:
        """Of the newest weights."""
        return len(self.order)

    @property
    def is_complete(self) -> bool:
        """Whether every update has been applied."""
        return self.version == self._updates

    @property
    def computing(self) -> list[int]:
        """The ranks whose update is still to come."""
        return [rank for rank in range(len(self._done)) if rank not in self._waiting] if not self.is_complete else []

    def apply(self, rank: int, version: int) -> Update:
        """Note that a gradient, computed on ``version``, is applied now. Whoever sent it waits until it is released.

        Raises:
            WorkerError: it cannot have computed one, or not on that version.
        """
        if rank in self._waiting or version != self.given[rank]:
            raise WorkerError(
                f"worker {rank} sent a gradient of version {version}, and was last given {self.given[rank]}"
                + (", after which it has sent one already" if rank in self._waiting else ""),
                fix="report it: the protocol is broken",
            )
        update = Update(rank, self._done[rank], version)
        self.order.append(update)
        self._done[rank] += 1
        self._waiting.append(rank)
        return update

    def release(self) -> list[Release]:
        """Who gets the newest weights now, in the order in which their updates came."""
        if self.is_complete:
            released = [Release(rank, goes_on=False) for rank in self._waiting]
        else:
            most = math.inf if self._staleness is None else min(self._done) + self._staleness
            may = [rank for rank in self._waiting if self._done[rank] <= most]
            released = [Release(rank, goes_on=True) for rank in may[: self._left]]
            self._left -= len(released)
        for one in released:
            self._waiting.remove(one.rank)
            self.given[one.rank] = self.version
        return released


def staleness(order: Sequence[Update]) -> list[int]:
    """Of each update, in their order."""
    return [at - update.version for at, update in enumerate(order)]


def most_stale(world: int, bound: int) -> int:
    """The largest staleness that SSP with this bound allows among ``world`` workers."""
    return (2 * bound + 1) * (world - 1)


def problem(order: Sequence[Update], world: int, updates: int, bound: int | None) -> str:
    """What is wrong with an order of updates that somebody claims to have applied; empty if nothing is.

    Each worker's iterations must be there once and in their order, each computed on weights that contain those before
    it; no worker may have begun one further ahead of the slowest than ``bound``.
    """
    if len(order) != updates:
        return f"{len(order)} updates were applied, of {updates}"
    done, last, slowest = [0] * world, [-1] * world, [0]
    for at, update in enumerate(order):
        rank, iteration, version = update.rank, update.iteration, update.version
        if iteration != done[rank]:
            return f"update {at} is iteration {iteration} of worker {rank}, which has had {done[rank]}"
        if not last[rank] < version <= at:  # 0 before its first
            return f"update {at} was computed on version {version}, which worker {rank} was not given then"
        ahead = iteration - slowest[version]
        if bound is not None and ahead > bound:
            return f"worker {rank} began iteration {iteration} when it was {ahead} ahead of the slowest"
        done[rank], last[rank] = iteration + 1, at
        slowest.append(min(done))
    return ""
