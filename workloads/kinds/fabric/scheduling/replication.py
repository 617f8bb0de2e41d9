"""Updates that go to the replica with a batch, and when the servers wait for them (MLfabric, section 5.3, fig. 3).

The replica gets the updates in the servers' order, by the aggregation of section 5.2 over aggregators of its own. Those
that it has when the servers commit the last update of the batch (T_last) are frozen. The others are punted: they go
with the next batch, and have more to be summed with. If the weights would be too far apart at T_last, the last transfer
to the servers is delayed until the replica has enough updates, and these are frozen. So are all that were punted
before, where a commit needs one of them: else each batch would send the first few of them straight, and what waits
would never be summed.

The paper looks at T_last alone. The bound holds at every commit here: the servers hold an update until the replica has
enough updates for its commit (:attr:`Replicated.commits_s`). The last commit needs the most, so no other is held
longer.

Commits of updates that earlier batches have sent may still be to come: what these need goes to the replica, too.

With a loose bound, much waits for the replica, and most batches send it nothing: no commit needs anything of it, and
before T_last it cannot get anything. So the way there is found once somebody asks for a moment that is late enough.

The replica applies an update after the servers have, so it is never ahead of them. Why it is so, and what is done about
an update that is beyond the bound by itself, is in docs/decisions/mlfabric-replication.md.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from testbed.workloads.kinds.fabric.scheduling.aggregation import Destination, aggregate
from testbed.workloads.kinds.fabric.scheduling.divergence import Lead
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Group, Replicated, Replication, Transfer, Update, Way
from testbed.workloads.kinds.fabric.scheduling.network import Load, Network
from testbed.workloads.kinds.fabric.scheduling.residual import TICK_S


def replicate(batch: Batch, order: Sequence[Update], way: Way, network: Network) -> tuple[Way, Replicated]:
    """Plan the way to the replica, and return it with the way to the servers, whose last transfer may be delayed.

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
    # The replica has all shards, so it gets each update in one piece.
    waiting = [replace(one, sizes_bytes=(sum(one.sizes_bytes),)) for one in (*asked.behind, *order)]
    lead = _Lead(asked, batch.momentum, waiting, network.copy())
    commits = list(_commits(way, len(asked.behind), lead))
    until_s = max(lead.allowed_s(len(asked.behind) + len(order)), *(one.arrives_s for one in commits[-1:]), -math.inf)
    frozen = lead.frozen(until_s, len(asked.behind))
    to_replica = _prefix(lead.way, {update.id for update in waiting[:frozen]}) if frozen else Way()
    late: list[Transfer] = []
    if commits and until_s > commits[-1].arrives_s + TICK_S:
        last = commits[-1].members  # alone or in a sum
        late = [one for one in way.transfers if one.members == last and one.target == batch.servers[one.shard]]
    way, delayed_s = _reserved(way, late, to_replica, until_s, network)
    commits_s: dict[int, float] = {}
    now_s = 0.0
    for one in commits:
        now_s = max(now_s, one.allowed_s, way.arrivals_s[one.members[-1]])
        commits_s |= dict.fromkeys(one.members, now_s)
    return way, Replicated(
        way=to_replica,
        punted=tuple(update.id for update in waiting[frozen:]),
        divergence=lead.divergence(frozen, len(waiting)),
        delayed_s=delayed_s,
        breaches=sum(
            lead.is_beyond(min(frozen, lead.held(commits_s[one.members[-1]])), one.committed) for one in commits
        ),
        commits_s=commits_s,
    )


@dataclass(frozen=True)
class _Commit:
    """Updates that the servers commit at once: one that came alone, or a group.

    Attributes:
        committed: how many of the waiting updates the servers have afterwards.
        arrives_s: when the servers have it, and all before it.
        allowed_s: when the replica has what this commit needs.
    """

    members: tuple[int, ...]
    committed: int
    arrives_s: float
    allowed_s: float


class _Lead(Lead):
    """The lead of the servers over the replica, with the updates that wait, and when the replica has how many of these,
    if all go there in ``network``."""

    def __init__(self, asked: Replication, momentum: float, waiting: Sequence[Update], network: Network) -> None:
        super().__init__(asked.most, asked.most_updates, asked.history, momentum)
        self.add(update.norm for update in waiting)
        self._waiting, self._network = waiting, network
        self._destination = Destination((asked.replica,), asked.aggregators, momentum, is_replica=True)
        self._soonest_s = self._first_s()

    def _first_s(self) -> float:
        """Return the moment before which the replica has none of them: the first one comes alone, or in a sum that is
        no smaller, from the first aggregator."""
        if not self._waiting:
            return math.inf
        first, (replica,) = self._waiting[0], self._destination.targets
        sources = (first.worker, *self._destination.aggregators[:1])
        loads = (Load(source, replica, sum(first.sizes_bytes), first.ready_s) for source in sources)
        return min(self._network.end_s(load) for load in loads)

    @cached_property
    def way(self) -> Way:
        """The way to the replica of all updates that wait."""
        return aggregate(self._waiting, self._destination, self._network)

    @cached_property
    def _held_s(self) -> list[float]:
        return list(accumulate((self.way.arrivals_s[update.id] for update in self._waiting), max))

    def held(self, moment_s: float) -> int:
        """Count the updates that the replica has at a moment, without a gap."""
        if moment_s < self._soonest_s - 2 * TICK_S:
            return 0
        return bisect_right(self._held_s, moment_s + TICK_S)

    def frozen(self, until_s: float, behind: int) -> int:
        """Count the updates that go to the replica with this batch: those that are there by then and, where a commit
        needs one of the first ``behind``, which wait from before, all of these."""
        ends_s = self._held_s[behind - 1] if behind and self.needed(len(self)) else -math.inf
        return self.held(until_s if ends_s == math.inf else max(until_s, ends_s))

    def allowed_s(self, committed: int) -> float:
        """Return from when on the servers may have so many updates. No commit waits for an update that the replica can
        never have."""
        needed = self.needed(committed)
        since_s = self._held_s[needed - 1] if needed else 0.0
        return 0.0 if since_s == math.inf else since_s


def _commits(way: Way, behind: int, lead: _Lead) -> Iterator[_Commit]:
    committed = behind
    for members in (*((one,) for one in way.direct), *(group.members for group in way.groups)):
        committed += len(members)
        yield _Commit(members, committed, way.arrivals_s[members[-1]], lead.allowed_s(committed))


def _reserved(
    way: Way, late: Sequence[Transfer], to_replica: Way, from_s: float, network: Network
) -> tuple[Way, float]:
    """Return the way with its late transfers sent from a moment on, and by how much that delays them. The replica's
    transfers are reserved before them."""
    for transfer in late:
        network.release(transfer)
    for transfer in to_replica.transfers:
        network.take(transfer)
    if not late:
        return way, 0.0
    later = [network.reserve(Load.again(transfer, from_s)) for transfer in late]
    transfers = [one for one in way.transfers if one not in late] + later
    arrivals_s = {**way.arrivals_s, **dict.fromkeys(later[0].members, max(one.end_s for one in later))}
    way = replace(way, transfers=tuple(sorted(transfers, key=lambda one: one.start_s)), arrivals_s=arrivals_s)
    return way, max(new.start_s - old.start_s for old, new in zip(late, later, strict=True))


def _prefix(way: Way, ids: set[int]) -> Way:
    """Return the way of the first updates alone; a group is in it or not."""
    groups: tuple[Group, ...] = tuple(group for group in way.groups if ids.issuperset(group.members))
    return Way(
        tuple(one for one in way.direct if one in ids),
        groups,
        tuple(one for one in way.transfers if ids.issuperset(one.members)),
        {one: arrives_s for one, arrives_s in way.arrivals_s.items() if one in ids},
    )
