"""What the processes of a trial tell each other, besides gradients and weights: small notes, each of a type of its own.

An update is known by its number: iteration times the number of workers, plus rank. So every process knows whose it is.
"""

from __future__ import annotations

import json
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
    """

    update: int
    target: int
    wait_s: float
    rate_bps: float
    group: int


@dataclass(frozen=True)
class Gather:
    """The scheduler's to an aggregator: sum these updates and send the sum on.

    Attributes:
        members: numbers of the updates, in their order.
        shares: what each counts in the sum for the weights, and in that for the velocity
            (:mod:`~workloads.kinds.fabric.sums`).
        target: the server.
    """

    group: int
    members: tuple[int, ...]
    shares: tuple[tuple[float, float], ...]
    target: int


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
        group: as in :class:`Send`.
        sums: how many sums follow.
    """

    members: tuple[int, ...]
    versions: tuple[int, ...]
    shares: tuple[tuple[float, float], ...]
    group: int
    sums: int


@dataclass(frozen=True)
class Arrived:
    """To the scheduler: what a :class:`Gradient` announced is there; without members, weights."""

    members: tuple[int, ...]
    source: int


@dataclass(frozen=True)
class Order:
    """The scheduler's to a server: updates are to be applied in this order, after those told before."""

    updates: tuple[int, ...]
    versions: tuple[int, ...]


@dataclass(frozen=True)
class Dropped:
    """The scheduler's to a server: this update will not come."""

    update: int
    version: int


@dataclass(frozen=True)
class Decided:
    """A server's to the scheduler: what became of updates, in their order, as (number, fate)."""

    entries: tuple[tuple[int, int], ...]
    version: int


Hop: TypeAlias = tuple[int, float, float]
"""Where weights go next, how long to wait before they leave (s), and how fast at most (bit/s; 0 for any rate)."""


@dataclass(frozen=True)
class Give:
    """The scheduler's to a server: send the newest weights.

    Attributes:
        ways: for each node that gets them from the server, how they go there, and how from there on to others. That
            node is a recipient or not.
        recipients: (node, for how long its weights were held back in s, whether it goes on).
    """

    ways: tuple[tuple[Hop, tuple[Hop, ...]], ...]
    recipients: tuple[tuple[int, float, bool], ...]


@dataclass(frozen=True)
class Weights:
    """Before floats: weights of one version.

    Attributes:
        version: how many updates they contain.
        begin: number of the first entry of the journal that follows, and ``begin_version``: of the weights before it.
        entries: of the journal, (number of the update, fate).
        recipients: as in :class:`Give`, of this node and of those that it passes the weights on to.
        onward: how it passes them on.
    """

    version: int
    begin: int
    begin_version: int
    entries: tuple[tuple[int, int], ...]
    recipients: tuple[tuple[int, float, bool], ...]
    onward: tuple[Hop, ...]


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
class End:
    """To the scheduler: this process has nothing left to do. And the scheduler's: nor has anybody else."""


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
    | Decided
    | Give
    | Weights
    | Given
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
