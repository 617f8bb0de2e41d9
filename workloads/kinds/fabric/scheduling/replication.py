"""Which updates go to the replica with a batch, and when the servers wait for them (MLfabric, section 5.3, fig. 3).

The replica gets the updates in the servers' order, by the aggregation of section 5.2 over aggregators of its own. Those
that it has when the servers commit the last update of the batch (T_last) are frozen. The others are punted: they go
with the next batch, and have more to be summed with. If the weights would be too far apart at T_last, the last transfer
to the servers is delayed until the replica has enough updates, and only these are frozen.

The paper looks at T_last alone. The bound holds at every commit here: the servers hold an update until the replica has
enough updates for its commit (:attr:`Replicated.commits_s`). The last commit needs the most, so no other is held
longer.

The replica applies an update after the servers have, so it is never ahead of them. Why it is so, and what is done about
an update that is beyond the bound by itself, is in docs/decisions/mlfabric-replication.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from workloads.kinds.fabric.scheduling.aggregation import Destination, aggregate
from workloads.kinds.fabric.scheduling.divergence import changes
from workloads.kinds.fabric.scheduling.model import Batch, Group, Replicated, Replication, Transfer, Update, Way
from workloads.kinds.fabric.scheduling.network import Load, Network
from workloads.kinds.fabric.scheduling.residual import TICK_S

ROUNDING = 1e-9
"""A divergence that is beyond its bound by so little, as a share of it, is within it."""


def replicate(batch: Batch, order: Sequence[Update], way: Way, network: Network) -> tuple[Way, Replicated]:
    """What goes to the replica, and the way to the servers, whose last transfer may be delayed.

    Args:
        batch: has a replica.
        order: the updates that are sent, in the order in which they are to be committed.
        way: of them to the servers.
        network: has that way reserved; then it has what is returned.

    Raises:
        SchemeError: two of the nodes have several paths.
    """
    asked = batch.replication
    assert asked is not None
    waiting = [_whole(update) for update in (*asked.behind, *order)]
    destination = Destination((asked.replica,), asked.aggregators, batch.momentum, is_replica=True)
    tentative = aggregate(waiting, destination, network.copy())
    lead = _Lead(asked, batch.momentum, waiting, tentative)
    commits = list(_commits(way, len(asked.behind), lead))
    until_s = max((max(one.arrives_s, one.allowed_s) for one in commits[-1:]), default=-math.inf)
    frozen = lead.held(until_s)
    to_replica = _prefix(tentative, {update.id for update in waiting[:frozen]})
    is_late = bool(commits) and until_s > commits[-1].arrives_s + TICK_S
    way, delayed_s = _reserved(way, _last(batch, way) if is_late else (), to_replica, until_s, network)
    commits_s = _committed(way, commits)
    return way, Replicated(
        way=to_replica,
        punted=tuple(update.id for update in waiting[frozen:]),
        divergence=lead.divergence(frozen, len(waiting)),
        delayed_s=delayed_s,
        is_breach=any(lead.is_beyond(min(frozen, lead.held(commits_s[one.last])), one.committed) for one in commits),
        commits_s=commits_s,
    )


def _whole(update: Update) -> Update:
    """The replica has all shards, so an update goes there in one piece."""
    return replace(update, sizes_bytes=(sum(update.sizes_bytes),))


@dataclass(frozen=True)
class _Commit:
    """What the servers commit at once: an update that came alone, or a group.

    Attributes:
        committed: how many of the waiting updates the servers have afterwards.
        arrives_s: when the servers have it, and all before it.
        allowed_s: when the replica has what this commit needs.
    """

    members: tuple[int, ...]
    committed: int
    arrives_s: float
    allowed_s: float

    @property
    def last(self) -> int:
        return self.members[-1]


class _Lead:
    """How far the servers are ahead of the replica, by how many of the waiting updates each of them has."""

    def __init__(self, asked: Replication, momentum: float, waiting: Sequence[Update], way: Way) -> None:
        self._most = math.inf if asked.most is None else asked.most * (1 + ROUNDING)
        self._most_updates = asked.most_updates
        self._changes = changes(asked.history, [update.norm for update in waiting], momentum)
        self._moved = list(accumulate(self._changes, initial=0.0))
        self._held_s = list(accumulate((way.arrivals_s[update.id] for update in waiting), max))

    def divergence(self, replicated: int, committed: int) -> float:
        """Its upper bound (eq. 11)."""
        return math.fsum(self._changes[replicated:committed])

    def is_beyond(self, replicated: int, committed: int) -> bool:
        """Whether the bound is broken."""
        is_many = self._most_updates is not None and committed - replicated > self._most_updates
        return is_many or self.divergence(replicated, committed) > self._most

    def held(self, moment_s: float) -> int:
        """How many updates the replica has at a moment, without a gap."""
        return bisect_right(self._held_s, moment_s + TICK_S)

    def needed(self, committed: int) -> int:
        """How many the replica must have before the servers have so many: all but one at most, for an update that is
        beyond the bound alone goes through."""
        least = bisect_left(self._moved, self._moved[committed] - self._most)
        if self._most_updates is not None:
            least = max(least, committed - self._most_updates)
        return min(least, committed - 1)

    def since_s(self, replicated: int) -> float:
        """From when on the replica has so many."""
        return self._held_s[replicated - 1] if replicated else 0.0


def _commits(way: Way, behind: int, lead: _Lead) -> Iterator[_Commit]:
    """Those of a batch, in their order. No commit waits for an update that the replica can never have."""
    committed = behind
    for members in (*((one,) for one in way.direct), *(group.members for group in way.groups)):
        committed += len(members)
        allowed_s = lead.since_s(lead.needed(committed))
        yield _Commit(members, committed, way.arrivals_s[members[-1]], 0.0 if allowed_s == math.inf else allowed_s)


def _last(batch: Batch, way: Way) -> tuple[Transfer, ...]:
    """What brings the last update to the servers, alone or in a sum."""
    members = way.groups[-1].members if way.groups else way.direct[-1:]
    return tuple(one for one in way.transfers if one.members == members and one.target == batch.servers[one.shard])


def _from(transfer: Transfer, moment_s: float) -> Load:
    """The same, to be sent from a moment on."""
    return Load(
        transfer.source, transfer.target, transfer.size_bytes, moment_s, transfer.members, transfer.shard, False
    )


def _reserved(
    way: Way, late: Sequence[Transfer], to_replica: Way, from_s: float, network: Network
) -> tuple[Way, float]:
    """The way with its late transfers sent from a moment on, and by how much that delays them. The replica's transfers
    are reserved before them."""
    for transfer in late:
        network.release(transfer)
    for transfer in to_replica.transfers:
        network.take(transfer)
    if not late:
        return way, 0.0
    later = [network.reserve(_from(transfer, from_s)) for transfer in late]
    transfers = [one for one in way.transfers if one not in late] + later
    arrivals_s = {**way.arrivals_s, **dict.fromkeys(later[0].members, max(one.end_s for one in later))}
    way = replace(way, transfers=tuple(sorted(transfers, key=lambda one: one.start_s)), arrivals_s=arrivals_s)
    return way, max(new.start_s - old.start_s for old, new in zip(late, later, strict=True))


def _committed(way: Way, commits: Sequence[_Commit]) -> dict[int, float]:
    """By id, when the servers may commit."""
    found: dict[int, float] = {}
    now_s = 0.0
    for one in commits:
        now_s = max(now_s, one.allowed_s, way.arrivals_s[one.last])
        found |= dict.fromkeys(one.members, now_s)
    return found


def _prefix(way: Way, ids: set[int]) -> Way:
    """The way of the first updates alone; a group is in it or not."""
    groups: tuple[Group, ...] = tuple(group for group in way.groups if ids.issuperset(group.members))
    return Way(
        tuple(one for one in way.direct if one in ids),
        groups,
        tuple(one for one in way.transfers if ids.issuperset(one.members)),
        {one: arrives_s for one, arrives_s in way.arrivals_s.items() if one in ids},
    )
