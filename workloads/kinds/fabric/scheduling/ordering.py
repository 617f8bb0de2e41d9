"""The order in which updates are sent, and the updates that are dropped (MLfabric, section 5.1, algorithms 1 and 2).

Without a bound on delay, the transfer that ends first goes first, then the one of the others that ends first given
what is reserved, and so on (alg. 1). With one, an update has a deadline, the last position at which it may stand
(eq. 9), and an update that is due goes before shorter ones. If it would end after the next one, it is dropped: the
server would have to wait for it with the next one at hand (section 5.1.3, fig. 5).

The printed alg. 2 is mended in three points (docs/decisions/mlfabric-ordering.md): positions count what stays, several
updates may be due at once, and an update that is dropped no longer speaks for the one before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.workloads.kinds.fabric.scheduling.model import Batch, Drop, Update
from testbed.workloads.kinds.fabric.scheduling.network import Network, loads
from testbed.workloads.kinds.fabric.scheduling.picking import Found, picker
from testbed.workloads.kinds.fabric.scheduling.residual import moment


@dataclass(frozen=True)
class Ordering:
    """Updates in the order in which they are sent, and by id why others are not."""

    order: tuple[Update, ...]
    dropped: dict[int, Drop] = field(default_factory=dict)


@dataclass(frozen=True)
class _Placed:
    """An update at its position, with the network as it was before, and the picker's state then."""

    found: Found
    before: Network
    known: Any


def order(batch: Batch, network: Network) -> Ordering:
    """Order a batch, as if all of it went straight to the servers; ``network`` stays as it is.

    Updates of :attr:`Batch.placed` come first. They are dropped only where no rate is left for them, ever.

    Raises:
        SchemeError: a worker has several paths to a server.
    """
    by_id = {update.id: update for update in batch.updates}
    network = network.copy()
    front, unreachable = [], {}
    for update in (by_id.pop(one) for one in batch.placed):
        if network.last_s(loads(update, batch.servers)) < math.inf:
            front.append(update)
            network.reserve_all(loads(update, batch.servers))
        else:
            unreachable[update.id] = Drop.UNREACHABLE
    back, dropped = _behind(front, batch, by_id.values(), network)
    return Ordering((*front, *back), unreachable | dropped)


def deadline(update: Update, batch: Batch) -> float:
    """Return the last position, from 1, at which an update may stand in its batch (eq. 9); infinity without a delay
    bound."""
    return math.inf if batch.delay_bound is None else update.version + batch.delay_bound - batch.version


def _behind(
    front: Sequence[Update], batch: Batch, updates: Iterable[Update], network: Network
) -> tuple[list[Update], dict[int, Drop]]:
    """Order the updates behind those that keep their place, and say why others are dropped."""
    updates = sorted(updates, key=lambda update: (update.worker, update.id))
    deadlines = [deadline(update, batch) for update in updates]
    placed: list[_Placed] = []
    blocking: set[int] = set()
    pick = picker(updates, deadlines, batch.servers, network)
    while (found := pick.next(len(front) + len(placed) + 1, network)) is not None:
        last = placed[-1] if placed else None
        if last and last.found.is_due and moment(last.found.end_s) > moment(found.end_s):
            placed.pop()
            blocking.add(last.found.index)
            network = last.before
            pick.back(last.known)
            continue
        placed.append(_Placed(found, network, pick.known()))
        pick.take(found.index)
        network = network.copy()
        network.reserve_all(loads(updates[found.index], batch.servers))
    end, ordered = len(front) + len(placed) + 1, dict.fromkeys(one.found.index for one in placed)
    dropped = {}
    for index, update in enumerate(updates):
        if index in blocking:
            dropped[update.id] = Drop.BLOCKS
        elif index not in ordered:
            dropped[update.id] = Drop.OVERDUE if deadlines[index] < end else Drop.UNREACHABLE
    return [updates[index] for index in ordered], dropped
