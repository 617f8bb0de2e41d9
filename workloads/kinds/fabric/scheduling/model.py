"""Questions to the scheduler and its answers: plain data, in bytes and seconds (MLfabric, sections 4 and 5).

Nodes are indices into a topology's nodes. Moments are seconds on one clock, which the caller chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from testbed.workloads.kinds.fabric.scheduling.residual import TICK_S


@dataclass(frozen=True)
class Update:
    """One worker's update, which waits to be sent.

    Attributes:
        id: a number of the caller's choice, unique among all updates that are not committed yet.
        worker: the node that has it.
        sizes_bytes: of its components, by server (section 10.2); one number where one server has the whole model.
        version: of the weights that it was computed on, v(g) in eq. 9.
        ready_s: when it can leave at the earliest.
        norm: its Euclidean norm, with the learning rate applied; 0 where nobody bounds divergence.
    """

    id: int
    worker: int
    sizes_bytes: tuple[float, ...]
    version: int
    ready_s: float = 0.0
    norm: float = 0.0


@dataclass(frozen=True)
class Replication:
    """Goal of replication: the node, and how far it may be behind (section 5.3).

    Attributes:
        replica: the node that has the copy.
        aggregators: nodes that may sum updates on their way to it; none of them sums for a server.
        behind: updates that the servers have committed or will have before this batch, and the replica has not, in the
            order of commits.
        most: the largest divergence of the weights, Div_max; None for no bound.
        most_updates: the largest number of updates by which the replica may be behind; None for no bound.
        history: norm of h0, the last change of the weights at the replica (eq. 7).
    """

    replica: int
    aggregators: tuple[int, ...] = ()
    behind: tuple[Update, ...] = ()
    most: float | None = None
    most_updates: int | None = None
    history: float = 0.0


@dataclass(frozen=True)
class Batch:
    """Updates that are scheduled together.

    Attributes:
        updates: those that wait, in any order.
        servers: one, or one for each shard of the model.
        aggregators: nodes that may sum updates on their way to the servers, in the order in which groups take them.
        version: v_init of eq. 9, how many updates are committed once all of earlier batches are.
        delay_bound: tau_max of eq. 9; None for no bound.
        momentum: gamma of eq. 2. With momentum, what an aggregator sends has twice the bytes: two sums.
        placed: ids of updates that keep their place at the front, in their order: an earlier batch placed them, and
            their transfers have not begun.
        replication: None where there is no replica.
    """

    updates: tuple[Update, ...]
    servers: tuple[int, ...]
    aggregators: tuple[int, ...] = ()
    version: int = 0
    delay_bound: int | None = None
    momentum: float = 0.0
    placed: tuple[int, ...] = ()
    replication: Replication | None = None


class Drop(Enum):
    """Why an update is not sent."""

    OVERDUE = "its deadline has passed"
    BLOCKS = "the next update would end first"
    UNREACHABLE = "its path has no rate left, ever"


@dataclass(frozen=True)
class Transfer:
    """Data that one node sends to another in one go.

    Attributes:
        shard: which of the servers it is for.
        members: ids of the updates in it, in their order; none for weights.
        rates: (from when on in seconds, bit/s), until ``end_s``: what is reserved. Times with rate 0 are there, too.
        is_replica: whether it is on its way to the replica.
    """

    source: int
    target: int
    start_s: float
    end_s: float
    size_bytes: float
    members: tuple[int, ...] = ()
    shard: int = 0
    rates: tuple[tuple[float, float], ...] = ()
    is_replica: bool = False

    @property
    def resumed_s(self) -> float | None:
        """When it goes on after its last interruption; None if there is none."""
        steps = pairwise(self.rates)
        resumed_s = [now[0] for before, now in steps if before[1] == 0 and now[0] - before[0] > 2 * TICK_S]
        return resumed_s[-1] if resumed_s else None


@dataclass(frozen=True)
class Group:
    """Updates that one aggregator sums before it sends them on (section 5.2); ``members`` are ids in their order."""

    aggregator: int
    members: tuple[int, ...]


@dataclass(frozen=True)
class Way:
    """The way of ordered updates to one place, the servers or the replica.

    Attributes:
        direct: ids of those that go straight there: a prefix of the order.
        groups: the others, in their order.
        transfers: all of them, by the moment at which they begin.
        arrivals_s: by id, when an update is there, alone or in a sum.
    """

    direct: tuple[int, ...] = ()
    groups: tuple[Group, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    arrivals_s: Mapping[int, float] = field(default_factory=dict)

    @property
    def average_s(self) -> float:
        """Mean arrival of all updates, eq. 17; 0 of none."""
        return sum(self.arrivals_s.values()) / len(self.arrivals_s) if self.arrivals_s else 0.0

    @property
    def total_s(self) -> float:
        """When the last update is there, eq. 16; 0 of none."""
        return max(self.arrivals_s.values(), default=0.0)


@dataclass(frozen=True)
class Replicated:
    """The part of a schedule that concerns the replica.

    Attributes:
        way: of the updates that are frozen; those of :attr:`Replication.behind` come first.
        punted: ids of those that wait for the next batch, in their order.
        divergence: its upper bound (eq. 11) when the last update of the batch is committed.
        delayed_s: how much later the last update begins than it would without a replica.
        breaches: how many commits go beyond the bound all the same: because a single update is, or because nothing can
            get to the replica.
        commits_s: by id, when the servers may commit an update of the batch: once it is there and the bound holds.
    """

    way: Way
    punted: tuple[int, ...]
    divergence: float
    delayed_s: float = 0.0
    breaches: int = 0
    commits_s: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Schedule:
    """Result of scheduling a batch.

    Attributes:
        order: ids of the updates that are sent, in the order in which they are to be committed.
        dropped: by id, why an update is not sent.
        way: to the servers.
        replicated: None where there is no replica.
    """

    order: tuple[int, ...]
    dropped: Mapping[int, Drop]
    way: Way
    replicated: Replicated | None = None


Rates = Mapping[int, Sequence[tuple[float, float]]]
"""Rates by directed link: (from when on in seconds, bit/s), from moment 0 on."""
