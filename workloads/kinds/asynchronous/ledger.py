"""Decisions of an asynchronous parameter server: the order of updates, and the workers that may go on. Pure logic, no
I/O.

A *version* is how many updates the weights contain. A worker computes a gradient on the version that it was last given;
the server applies gradients in the order in which they come, each for itself. An update's *staleness* is the difference
between the version it is applied to and the one it was computed on: how many updates of others came in between
(MLfabric, section 2, where it is called delay).

Stale synchronous parallel (Ho et al., NIPS 2013, section 2): a worker that has done c iterations begins the next one
only if the slowest worker has done c - s or more. Then an update is at most (2s + 1)(N - 1) versions stale: when a
worker with c iterations gets its weights every other one has done c - s or more, and none gets beyond c + s + 1 while
that worker computes.

Several servers have a part of the weights each, and a ledger of their own. Each holds its part back by the same rule,
with what it has itself applied, and a worker goes on once it has all parts. So both bounds hold for each part, and no
server asks another. A worker's version is a vector then: one number for each server.

A trial has as many updates as iterations times workers, as a synchronous one has gradients. Which worker makes them is
not given: whoever is faster makes more of them. So a slow worker holds up nobody but, with SSP, those far ahead of it.
One server alone gives iterations out, when a worker says that it begins to send a gradient, and the worker tells the
others. Servers that each decided for themselves could end with updates of different workers.

No worker that is held back waits for one that has stopped. Say a worker that is to go on has done i iterations, and one
that has stopped did m in all, with i - s > m. When the first began its last iteration, all had done i - 1 - s or more,
which is m at least. So the other had stopped by then, because no iteration was left, and the first cannot have been
given another one.

Once no iteration is left to begin, workers wait for the last update, and all end with the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from testbed.base.errors import WorkerError
from testbed.workloads.learning.parts import merged
from testbed.workloads.learning.updates import Update

FIX = "report it: the protocol is broken"


class Ledger:
    """Updates in the order in which one server applies them.

    Attributes:
        order: all updates so far.
        given: by rank, the version of the weights that it was last given.
    """

    def __init__(self, world: int, updates: int, staleness: int | None, server: int = 0) -> None:
        """Set up for ``updates`` updates in all, at least one a worker; ``staleness`` is SSP's s, None for no bound.

        Every worker has the initial weights, and begins at once.
        """
        if updates < world:
            raise ValueError(f"{updates} updates for {world} workers")
        self._left = updates - world
        self.order: list[Update] = []
        self.given = [0] * world
        self._done = [0] * world
        self._waiting: dict[int, bool] = {}
        """Ranks that wait for weights, in the order of their updates, and whether they are to compute another
        gradient."""
        self._updates, self._staleness, self._server = updates, staleness, server

    @property
    def version(self) -> int:
        """Version of the newest weights."""
        return len(self.order)

    @property
    def is_complete(self) -> bool:
        """Whether every update has been applied."""
        return self.version == self._updates

    @property
    def computing(self) -> list[int]:
        """The ranks whose update is still to come."""
        return [rank for rank in range(len(self._done)) if rank not in self._waiting] if not self.is_complete else []

    def take(self) -> bool:
        """Take an iteration for a worker that has ended one, and say whether there was one left. Only the first server
        gives them out."""
        if not self._left:
            return False
        self._left -= 1
        return True

    def apply(self, rank: int, version: int, goes_on: bool) -> Update:
        """Note that a gradient, computed on ``version``, is applied now. Its worker waits until :meth:`release` lets it
        go: to compute another gradient if it ``goes_on``.

        Raises:
            WorkerError: it cannot have computed one, or not on that version.
        """
        if rank in self._waiting or version != self.given[rank]:
            raise WorkerError(
                f"worker {rank} sent a gradient of version {version}, and was last given {self.given[rank]}"
                + (", after which it has sent one already" if rank in self._waiting else ""),
                fix=FIX,
            )
        if self.is_complete:
            raise WorkerError(f"worker {rank} sent a gradient after all {self._updates} updates", fix=FIX)
        update = Update(rank, self._done[rank], version, self._server)
        self.order.append(update)
        self._done[rank] += 1
        self._waiting[rank] = goes_on
        return update

    def release(self) -> list[int]:
        """Choose the workers that get the newest weights now, in the order in which their updates came: those that may
        go on, and those that end, once all updates are there."""
        most = math.inf if self._staleness is None else min(self._done) + self._staleness
        may = [
            rank
            for rank, goes_on in self._waiting.items()
            if (self._done[rank] <= most if goes_on else self.is_complete)
        ]
        for rank in may:
            del self._waiting[rank]
            self.given[rank] = self.version
        return may


def staleness(order: Sequence[Update]) -> list[int]:
    """Compute the staleness of each update of one server, in their order."""
    return [at - update.version for at, update in enumerate(order)]


def most_stale(world: int, bound: int) -> int:
    """Compute the largest staleness that SSP with this bound allows among ``world`` workers."""
    return (2 * bound + 1) * (world - 1)


def problem(order: Sequence[Update], world: int, updates: int, bound: int | None) -> str:
    """Describe the first mistake in an order of updates that a server claims to have applied; empty if it is right.

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


def disagreement(orders: Sequence[Sequence[Update]]) -> str:
    """Describe the first contradiction between the orders of several servers, each of which is right by itself; empty
    if there is none.

    All must have applied the same updates, in orders that one process can follow.
    """
    first = {(update.rank, update.iteration) for update in orders[0]}
    for server, order in enumerate(orders):
        for rank, iteration in sorted(first ^ {(update.rank, update.iteration) for update in order})[:1]:
            return f"iteration {iteration} of worker {rank} was applied by one of servers 0 and {server} only"
    try:
        merged(orders)
    except ValueError as error:
        return str(error)
    return ""
