"""Messages between the processes of a trial, besides gradients and weights: small notes, each of a type of its own.

An update is known by its number: iteration times the number of workers, plus rank. So every process knows whose it is.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Container, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

from testbed.base.bounded_json import parse_json

NEAR_S = 0.025
"""How long before a transfer ends its receiver reports that: longer than the report takes to the scheduler, and the
scheduler's answer to the sender of what comes next."""
_FAR = 2**63
"""Limit below which the whole numbers in notes lie."""


@dataclass(frozen=True)
class Note:
    """A message; each of its types follows."""


@dataclass(frozen=True)
class Push(Note):
    """Note of a worker to its daemon: the shared memory has its update, computed on ``version``."""

    iteration: int
    version: int
    norm: float


@dataclass(frozen=True)
class Ready(Note):
    """Note of a daemon to the scheduler: its worker's update waits to be sent."""

    update: int
    version: int
    norm: float


@dataclass(frozen=True)
class Send(Note):
    """Note of the scheduler to a daemon: send its worker's update.

    Attributes:
        target: the node to send it to: a server, or the aggregator of ``group``.
        wait_s: how long to wait before that.
        rate_bps: no faster; 0 for as fast as TCP goes.
        group: which of the aggregator's groups it belongs to; -1 where it goes straight to the server.
        shard: which part of the update, by the server that it is for.
        said_s: when this was said, by the scheduler's clock; None of a process that tells itself.
    """

    update: int
    target: int
    wait_s: float
    rate_bps: float
    group: int
    shard: int = 0
    said_s: float | None = None


@dataclass(frozen=True)
class Gather(Note):
    """Note of the scheduler to an aggregator: sum these updates and send the sum on.

    Attributes:
        members: numbers of the updates, in their order.
        shares: what each counts in the sum for the weights, and in that for the velocity
            (:mod:`~testbed.workloads.kinds.fabric.sums`).
        target: the server.
        shard: as in :class:`Send`.
    """

    group: int
    members: tuple[int, ...]
    shares: tuple[tuple[float, float], ...]
    target: int
    shard: int = 0


@dataclass(frozen=True)
class SendSums(Note):
    """Note of the scheduler to an aggregator: send a group's sum on, once it is complete; otherwise as
    :class:`Send`."""

    group: int
    wait_s: float
    rate_bps: float
    said_s: float | None = None


@dataclass(frozen=True)
class Gradient(Note):
    """Note before floats: they are one update, or the sums of several.

    Attributes:
        members: numbers of the updates, in their order.
        versions: what each was computed on.
        shares: what each counts in what follows, as :class:`Gather` has it; of an update alone, once.
        group, shard: as in :class:`Send`.
        sums: how many sums follow.
        history: how many times the server had been started again when this was sent.
        norms: of the updates, with the learning rate applied; 0 where nobody needs them.
    """

    members: tuple[int, ...]
    versions: tuple[int, ...]
    shares: tuple[tuple[float, float], ...]
    group: int
    sums: int
    shard: int = 0
    history: int = 0
    norms: tuple[float, ...] = ()


@dataclass(frozen=True)
class Arrived(Note):
    """Note to the scheduler: the data that a :class:`Gradient` announced is there; without members, weights. ``at_s``
    is since when, by the scheduler's clock, as far as that is known."""

    members: tuple[int, ...]
    source: int
    shard: int = 0
    at_s: float | None = None


@dataclass(frozen=True)
class Nears(Note):
    """Note to the scheduler: the data, named as in :class:`Arrived`, has come so far that the rest takes ``left_s``,
    which is :data:`NEAR_S` or less, if it comes as fast."""

    members: tuple[int, ...]
    source: int
    left_s: float
    shard: int = 0
    at_s: float | None = None


@dataclass(frozen=True)
class Order(Note):
    """Note of the scheduler to a server, which tells its replica: apply updates in this order, after those told before.
    ``norms`` are theirs, with the learning rate applied; 0 where nobody needs them."""

    updates: tuple[int, ...]
    versions: tuple[int, ...]
    norms: tuple[float, ...]


@dataclass(frozen=True)
class Dropped(Note):
    """Note of the scheduler to a server, which tells its replica: this update will not come."""

    update: int
    version: int


@dataclass(frozen=True)
class Commit(Note):
    """Note of the scheduler to one of several servers: all servers have this many updates of the order, and may apply
    them. Commits, drops and :class:`Give` come to all servers in one order, so that all do the same."""

    updates: int


@dataclass(frozen=True)
class Decided(Note):
    """Note of the first server to the scheduler and the replica: the fates of updates, in order, as (number, fate)."""

    entries: tuple[tuple[int, int], ...]
    version: int


@dataclass(frozen=True)
class Held(Note):
    """Note of a replica to the server: how many updates of the order it has, without a gap, and how many times it had
    been sent a :class:`Snapshot` before."""

    count: int
    snapshots: int = 0


@dataclass(frozen=True)
class Snapshot(Note):
    """Note of a server to its replica, before floats: the weights as they are, and with momentum the velocity. From
    here on the replica gets all updates from the server, and nothing that came before counts.

    Attributes:
        number: how many there were, with this one.
        at: how many updates of the order have had their turn.
        version: of the weights.
        steps: how many the journal has.
    """

    number: int
    at: int
    version: int
    steps: int


Hop: TypeAlias = tuple[int, float, float]
"""One step of weights on their way: the next node, how long to wait before they leave (s), and how fast they go at most
(bit/s; 0 for any rate)."""


Recipient: TypeAlias = tuple[int, float, bool]
"""A node that gets weights for its worker, for how long they were held back (s), and whether the worker goes on."""


def recipients_of(first: int, onward: Sequence[int], recipients: Container[int]) -> list[int]:
    """List the nodes on one way that receive weights for their workers, in its order."""
    return [node for node in (first, *onward) if node in recipients]


@dataclass(frozen=True)
class Give(Note):
    """Note of the scheduler to a server: send the newest weights, or its shard of them.

    Attributes:
        ways: for each node that gets them from the server, how they go there, and the nodes to which it passes them on.
            That node is one of the ``recipients`` or not.
        said_s: as in :class:`Send`.
    """

    ways: tuple[tuple[Hop, tuple[int, ...]], ...]
    recipients: tuple[Recipient, ...]
    said_s: float | None = None


@dataclass(frozen=True)
class Pass(Note):
    """Note of the scheduler to a distributor: pass on the weights for another node, once they are there; otherwise as
    :class:`Send`."""

    target: int
    wait_s: float
    rate_bps: float
    shard: int = 0
    said_s: float | None = None


@dataclass(frozen=True)
class Weights(Note):
    """Note before floats: weights of one version, or a shard of them.

    Attributes:
        version: how many updates they contain.
        begin: number of the first entry of the journal that follows, and ``begin_version``: of the weights before it.
        entries: of the journal, (number of the update, fate).
        recipients: as in :class:`Give`, of this node and of those that it passes the weights on to.
        onward: to which nodes.
        shard: which part of the weights.
        history: as in :class:`Gradient`.
        server: the node whose weights they are; after the loss of one, its weights may still be on their way.
    """

    version: int
    begin: int
    begin_version: int
    entries: tuple[tuple[int, int], ...]
    recipients: tuple[Recipient, ...]
    onward: tuple[int, ...]
    shard: int = 0
    history: int = 0
    server: int = -1


@dataclass(frozen=True)
class Given(Note):
    """Note of a daemon to its worker: the shared memory has new weights; as :class:`Weights`. ``kept`` is how many
    entries of the journal are still true if the server was started again since the last ones; None if it was not."""

    version: int
    begin: int
    begin_version: int
    entries: tuple[tuple[int, int], ...]
    held_s: float
    goes_on: bool
    kept: int | None = None


@dataclass(frozen=True)
class Disband(Note):
    """Note of the scheduler to an aggregator: this group is not summed after all, for a process of it is lost. Its
    members send their updates again."""

    group: int


@dataclass(frozen=True)
class Gone(Note):
    """Note of the scheduler to a server, or of a server to the scheduler: a node's daemon is lost. Where there is a
    replica, the scheduler also sends it to daemons: one of them is lost, so nothing goes to the replica any more but
    from the server. It sends it to all when the server or the replica is lost; and either of these two sends it to the
    scheduler when the other is lost.

    Attributes:
        updates: numbers of those that will not come, unless they are there; a server knows none.
    """

    node: int
    updates: tuple[int, ...]


@dataclass(frozen=True)
class Joined(Note):
    """Note to the scheduler, after it has told that the server is lost: this process has no data left from that server.

    Attributes:
        unanswered: number of the update for which a worker waits for weights; -1 where none does.
        begin: number of the first entry of the server's journal that follows,
        entries: and what is known here of the journal from there on.
    """

    unanswered: int
    begin: int
    entries: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Serve(Note):
    """Note of the scheduler to the replica: the server is lost, serve in its place.

    Attributes:
        updates: numbers of all that was to be applied, in order, and ``versions``.
        entries: all that is known of the server's journal.
    """

    updates: tuple[int, ...]
    versions: tuple[int, ...]
    entries: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Back(Note):
    """Note to a server that was started again: this process has found it.

    Attributes:
        update: a daemon's: number of its worker's update that is not answered, or that the worker computes.
        ago_s: how long ago the old server was lost.
    """

    update: int
    ago_s: float


@dataclass(frozen=True)
class Resume(Note):
    """Note of a server that was started again to the scheduler, when all have found it; and of the scheduler to
    daemons: all that was sent before is void.

    Attributes:
        history: how many times a server was started again.
        kept: how many entries the journal had at the checkpoint.
        version: of the weights there.
        waiting: ranks of the workers that only lack weights: their updates were decided before the checkpoint.
        entries: the journal with what was lost; empty for daemons.
    """

    history: int
    kept: int
    version: int
    waiting: tuple[int, ...]
    entries: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Renewed(Note):
    """Note of a daemon to the scheduler: all that follows was sent after :class:`Resume`."""

    history: int


@dataclass(frozen=True)
class Lost(Note):
    """Note of a daemon to a server that was started again: this update was computed on weights that were lost."""

    update: int


@dataclass(frozen=True)
class End(Note):
    """Note to the scheduler: this process has nothing left to do. And from the scheduler: no process has. A server
    tells its replica, after all else. Once the scheduler is lost, the server takes its place."""


MOST_VALUES = 2**18
"""Limit on the values in one note. The longest note names each update that waits, and how many of them each worker has
sent."""
_TYPES: dict[str, type[Note]] = {one.__name__: one for one in Note.__subclasses__()}


def encode(note: Note) -> bytes:
    """Encode a note as bytes."""
    return json.dumps([type(note).__name__, *asdict(note).values()], separators=(",", ":")).encode()


def decode(told: bytes) -> Note:
    """Decode a note that :func:`encode` made. The sender is not trusted: each field is checked against its type.

    Raises:
        ValueError: it is none.
    """
    said = parse_json(told, most_values=MOST_VALUES)
    name, values = (said[0], said[1:]) if isinstance(said, list) and said else (None, [])
    made = _TYPES.get(name) if isinstance(name, str) else None
    if made is None or len(values) != len(_FIELDS[made]):
        raise ValueError(f"no note: {told[:80]!r}")
    found = {}
    for (field, read), value in zip(_FIELDS[made].items(), values, strict=True):
        try:
            found[field] = read(value)
        except ValueError as error:
            raise ValueError(f"a note {name} whose {field} is {error}") from None
    return made(**found)


_Read: TypeAlias = Callable[[Any], Any]
"""Converts a value of JSON to a field's type; raises ValueError with the value if it has another type."""


def reader(kind: Any) -> _Read:
    """Make the reader of a field's type: numbers, truths, tuples of them, and each of these or None."""
    if get_origin(kind) is UnionType:
        (there,) = (one for one in get_args(kind) if one is not NoneType)
        read = reader(there)
        return lambda value: None if value is None else read(value)
    if get_origin(kind) is not tuple:
        return partial(_simple, kind)
    first, *rest = get_args(kind)
    if rest == [...]:
        return partial(_each, reader(first))
    return partial(_all, [reader(one) for one in get_args(kind)])


def _simple(kind: type, value: Any) -> Any:
    if type(value) is int and kind is not bool and -_FAR <= value < _FAR:  # JSON has 1.0 as 1, too
        return value
    if type(value) is not kind or kind is int:
        raise ValueError(f"{reprlib.repr(value)}, no {kind.__name__}")
    return value


def _each(read: _Read, value: Any) -> Any:
    if not isinstance(value, list):
        raise ValueError(f"{reprlib.repr(value)}, no list")
    return tuple(map(read, value))


def _all(reads: Sequence[_Read], value: Any) -> Any:
    if not isinstance(value, list) or len(value) != len(reads):
        raise ValueError(f"{reprlib.repr(value)}, no list of {len(reads)}")
    return tuple(read(one) for read, one in zip(reads, value, strict=True))


_FIELDS: dict[type[Note], dict[str, _Read]] = {
    made: {field: reader(kind) for field, kind in get_type_hints(made).items()} for made in _TYPES.values()
}
"""The readers of the fields of each type of note."""
