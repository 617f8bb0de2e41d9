"""What the processes of a trial tell each other, besides gradients and weights: small notes, each of a type of its own.

An update is known by its number: iteration times the number of workers, plus rank. So every process knows whose it is.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias, get_args

LONGEST_BYTES = 1 << 24
"""Of a note; room is made for it before it is read."""


@dataclass(frozen=True)
class Push:
    """A worker's to its daemon: the shared memory has its update, computed on ``version``."""

    iteration: int
    version: int
    norm: float


@dataclass(frozen=True)
class Ready:
    """A daemon's to the scheduler: its worker's update waits to be sent."""

    update: int
    version: int
    norm: float


@dataclass(frozen=True)
class Send:
    """The scheduler's to a daemon: send its worker's update.

    Attributes:
        target: the node to send it to: a server, or the aggregator of ``group``.
        wait_s: how long to wait before that.
        rate_bps: no faster; 0 for as fast as TCP goes.
        group: which of the aggregator's groups it belongs to; -1 where it goes straight to the server.
        shard: which part of the update, by the server that it is for.
    """

    update: int
    target: int
    wait_s: float
    rate_bps: float
    group: int
    shard: int = 0


@dataclass(frozen=True)
class Gather:
    """The scheduler's to an aggregator: sum these updates and send the sum on.

    Attributes:
        members: numbers of the updates, in their order.
        shares: what each counts in the sum for the weights, and in that for the velocity
            (:mod:`~workloads.kinds.fabric.sums`).
        target: the server.
        shard: as in :class:`Send`.
    """

    group: int
    members: tuple[int, ...]
    shares: tuple[tuple[float, float], ...]
    target: int
    shard: int = 0


@dataclass(frozen=True)
class SendSums:
    """The scheduler's to an aggregator: send a group's sum on, once it is complete; otherwise as :class:`Send`."""

    group: int
    wait_s: float
    rate_bps: float


@dataclass(frozen=True)
class Gradient:
    """Before floats: one update, or the sums of several.

    Attributes:
        members: numbers of the updates, in their order.
        versions: what each was computed on.
        shares: what each counts in what follows, as :class:`Gather` has it; of an update alone, once.
        group, shard: as in :class:`Send`.
        sums: how many sums follow.
    """

    members: tuple[int, ...]
    versions: tuple[int, ...]
    shares: tuple[tuple[float, float], ...]
    group: int
    sums: int
    shard: int = 0


@dataclass(frozen=True)
class Arrived:
    """To the scheduler: what a :class:`Gradient` announced is there; without members, weights."""

    members: tuple[int, ...]
    source: int
    shard: int = 0


@dataclass(frozen=True)
class Order:
    """The scheduler's to a server, which tells its replica: updates are to be applied in this order, after those told
    before. ``norms`` are theirs, with the learning rate applied; 0 where nobody needs them."""

    updates: tuple[int, ...]
    versions: tuple[int, ...]
    norms: tuple[float, ...]


@dataclass(frozen=True)
class Dropped:
    """The scheduler's to a server, which tells its replica: this update will not come."""

    update: int
    version: int


@dataclass(frozen=True)
class Commit:
    """The scheduler's to one of several servers: so many updates of the order are there at all of them, and may be
    applied. Commits, drops and :class:`Give` come to all servers in one order, so that all do the same."""

    updates: int


@dataclass(frozen=True)
class Decided:
    """The first server's to the scheduler and the replica: what became of updates, in order, as (number, fate)."""

    entries: tuple[tuple[int, int], ...]
    version: int


@dataclass(frozen=True)
class Held:
    """A replica's to the server: how many updates of the order it has, without a gap."""

    count: int


Hop: TypeAlias = tuple[int, float, float]
"""Where weights go next, how long to wait before they leave (s), and how fast at most (bit/s; 0 for any rate)."""


def recipients_of(first: int, onward: Sequence[Hop], recipients: Container[int]) -> list[int]:
    """Those who get weights on one way, in its order."""
    return [node for node in (first, *(hop[0] for hop in onward)) if node in recipients]


@dataclass(frozen=True)
class Give:
    """The scheduler's to a server: send the newest weights, or its shard of them.

    Attributes:
        ways: for each node that gets them from the server, how they go there, and how from there on to others. That
            node is a recipient or not.
        recipients: (node, for how long its weights were held back in s, whether it goes on).
    """

    ways: tuple[tuple[Hop, tuple[Hop, ...]], ...]
    recipients: tuple[tuple[int, float, bool], ...]


@dataclass(frozen=True)
class Weights:
    """Before floats: weights of one version, or a shard of them.

    Attributes:
        version: how many updates they contain.
        begin: number of the first entry of the journal that follows, and ``begin_version``: of the weights before it.
        entries: of the journal, (number of the update, fate).
        recipients: as in :class:`Give`, of this node and of those that it passes the weights on to.
        onward: how it passes them on.
        shard: which part of the weights.
        server: the node whose weights they are; after the loss of one, its weights may still be on their way.
    """

    version: int
    begin: int
    begin_version: int
    entries: tuple[tuple[int, int], ...]
    recipients: tuple[tuple[int, float, bool], ...]
    onward: tuple[Hop, ...]
    shard: int = 0
    server: int = -1


@dataclass(frozen=True)
class Given:
    """A daemon's to its worker: the shared memory has new weights; as :class:`Weights`."""

    version: int
    begin: int
    begin_version: int
    entries: tuple[tuple[int, int], ...]
    held_s: float
    goes_on: bool


@dataclass(frozen=True)
class Disband:
    """The scheduler's to an aggregator: this group is not summed after all, for a process of it is lost. Its members
    send their updates again."""

    group: int


@dataclass(frozen=True)
class Gone:
    """The scheduler's to a server, and a server's to the scheduler: a node's daemon is lost. Where there is a replica,
    also the scheduler's to all: the server is lost, or the replica; and that of either to the scheduler.

    Attributes:
        updates: numbers of those that will not come, unless they are there; a server knows none.
    """

    node: int
    updates: tuple[int, ...]


@dataclass(frozen=True)
class Joined:
    """To the scheduler, after it has told that the server is lost: this process has nothing more from that.

    Attributes:
        unanswered: number of the update for which a worker waits for weights; -1 where none does.
        begin: number of the first entry of the server's journal that follows,
        entries: and what is known here of the journal from there on.
    """

    unanswered: int
    begin: int
    entries: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Serve:
    """The scheduler's to the replica: the server is lost, serve in its place.

    Attributes:
        updates: numbers of all that was to be applied, in order, and ``versions``.
        entries: all that is known of the server's journal.
    """

    updates: tuple[int, ...]
    versions: tuple[int, ...]
    entries: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class End:
    """To the scheduler: this process has nothing left to do. And the scheduler's: nor has anybody else. A server tells
    its replica, after all else. Once the scheduler is lost, the server takes its place."""


Note: TypeAlias = (
    Push
    | Ready
    | Send
    | Gather
    | SendSums
    | Gradient
    | Arrived
    | Order
    | Dropped
    | Commit
    | Decided
    | Held
    | Give
    | Weights
    | Given
    | Disband
    | Gone
    | Joined
    | Serve
    | End
)
_TYPES: dict[str, type[Note]] = {one.__name__: one for one in get_args(Note)}


def encode(note: Note) -> bytes:
    """As bytes."""
    return json.dumps([type(note).__name__, *asdict(note).values()], separators=(",", ":")).encode()


def decode(told: bytes) -> Note:
    """What :func:`encode` was given.

    Raises:
        ValueError: it is none.
    """
    name, *values = json.loads(told)
    made = _TYPES.get(name)
    if made is None or len(values) != len(fields(made)):
        raise ValueError(f"no note: {told[:80]!r}")
    return made(*map(_frozen, values))


def _frozen(value: Any) -> Any:
    """JSON's lists as tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
