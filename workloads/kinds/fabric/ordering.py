"""In which order updates are sent, and which are dropped (MLfabric, section 5.1, algorithms 1 and 2).

Without a bound on delay, the transfer that ends first goes first, then the one of the others that ends first given what
is reserved, and so on (alg. 1). With one, an update has a deadline, the last position at which it may stand (eq. 9), and
an update that is due goes before shorter ones. If it would end after the next one, it is dropped: the server would have
to wait for it with the next one at hand (section 5.1.3, fig. 5).

The printed alg. 2 is mended in three points (docs/decisions/mlfabric-ordering.md): positions count what stays, several
updates may be due at once, and an update that is dropped no longer speaks for the one before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from workloads.kinds.fabric.model import Batch, Drop, Transfer, Update
from workloads.kinds.fabric.network import Load, Network


@dataclass(frozen=True)
class Ordering:
    """Updates in the order in which they are sent, and by id why others are not."""

    order: tuple[Update, ...]
    dropped: dict[int, Drop] = field(default_factory=dict)


@dataclass(frozen=True)
class _Placed:
    """An update at its position, with the network as it was before."""

    update: Update
    end_s: float
    is_due: bool
    before: Network


def order(batch: Batch, network: Network) -> Ordering:
    """The order of a batch, as if all of it went straight to the servers; ``network`` stays as it is.

    Updates of :attr:`Batch.placed` come first. They are dropped only where no rate is left for them, ever.

    Raises:
        SchemeError: a worker has several paths to a server.
    """
    by_id = {update.id: update for update in batch.updates}
    network = network.copy()
    front, unreachable = [], {}
    for update in (by_id.pop(one) for one in batch.placed):
        if end_s(update, batch.servers, network) < math.inf:
            front.append(update)
            reserve(update, batch.servers, network)
        else:
            unreachable[update.id] = Drop.UNREACHABLE
    back, dropped = _Back(batch, len(front), by_id.values()).run(network)
    return Ordering((*front, *back), unreachable | dropped)


def deadline(update: Update, batch: Batch) -> float:
    """The last position, from 1, at which an update may stand in its batch (eq. 9); infinity without a bound on delay."""
    return math.inf if batch.delay_bound is None else update.version + batch.delay_bound - batch.version


def reserve(update: Update, targets: Sequence[int], network: Network, is_replica: bool = False) -> list[Transfer]:
    """Send an update's components to the target of each, together (section 10.2): one after another where they meet."""
    return [
        network.reserve(Load(update.worker, target, size_bytes, update.ready_s, (update.id,), shard, is_replica))
        for shard, (target, size_bytes) in enumerate(zip(targets, update.sizes_bytes, strict=True))
    ]


def end_s(update: Update, targets: Sequence[int], network: Network) -> float:
    """When the slowest component is there (eq. 18)."""
    if len(targets) == 1:
        return network.end_s(Load(update.worker, targets[0], update.sizes_bytes[0], update.ready_s))
    return max(transfer.end_s for transfer in reserve(update, targets, network.copy()))


def moment(time_s: float) -> float:
    """A time in whole ticks, so that times that differ by rounding alone are the same."""
    return round(time_s, 9)


class _Back:
    """What comes behind the updates that keep their place."""

    def __init__(self, batch: Batch, first: int, updates: Iterable[Update]) -> None:
        self._servers = batch.servers
        self._first = first
        self._deadlines = {update.id: deadline(update, batch) for update in updates}
        self._updates = sorted(updates, key=lambda update: (update.worker, update.id))
        self._order: list[_Placed] = []
        self._blocking: set[int] = set()

    def run(self, network: Network) -> tuple[list[Update], dict[int, Drop]]:
        while (found := self._next(network)) is not None:
            last = self._order[-1] if self._order else None
            if last and last.is_due and moment(last.end_s) > moment(found.end_s):
                self._blocking.add(self._order.pop().update.id)
                network = last.before
            else:
                self._order.append(found)
                network = found.before.copy()
                reserve(found.update, self._servers, network)
        return [placed.update for placed in self._order], self._dropped()

    def _next(self, network: Network) -> _Placed | None:
        """At the next position: of those that are due the one that ends first, or of all, if none is."""
        position = self._first + len(self._order) + 1
        ordered = {placed.update.id for placed in self._order} | self._blocking
        left = [one for one in self._updates if one.id not in ordered and self._deadlines[one.id] >= position]
        ends = {one.id: end_s(one, self._servers, network) for one in left}
        left = [one for one in left if ends[one.id] < math.inf]
        if not left:
            return None
        due = self._due(left, position)
        chosen = min(due or left, key=lambda one: moment(ends[one.id]))
        return _Placed(chosen, ends[chosen.id], bool(due), network)

    def _due(self, left: Sequence[Update], position: int) -> list[Update]:
        """The fewest updates that need all of the next positions, as many as there are of them; none if none do."""
        deadlines = sorted(self._deadlines[one.id] for one in left)
        for count, latest in enumerate(deadlines, 1):
            if latest <= position + count - 1:
                last = position + count - 1
                return [one for one in left if self._deadlines[one.id] <= last]
        return []

    def _dropped(self) -> dict[int, Drop]:
        """Those that did not get a place, in the order of their workers."""
        end = self._first + len(self._order) + 1
        ordered = {placed.update.id for placed in self._order}
        dropped = {}
        for update in self._updates:
            if update.id in self._blocking:
                dropped[update.id] = Drop.BLOCKS
            elif update.id not in ordered:
                dropped[update.id] = Drop.OVERDUE if self._deadlines[update.id] < end else Drop.UNREACHABLE
        return dropped
