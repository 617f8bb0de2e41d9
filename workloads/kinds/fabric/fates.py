"""Fates of updates, what a worker learns of them with the weights that it gets, and a journal of them as the process
that kept it reports it in its last line. Pure logic, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from testbed.base.errors import WorkerError
from testbed.workloads.learning.updates import Update


class Fate(IntEnum):
    """The fate of an update.

    It came straight to the server, or in a sum; it was dropped where it was computed; it came when it was more stale
    than the delay bound allows; or it was lost with a server that was started again from a checkpoint.
    """

    DIRECT = 0
    AGGREGATED = 1
    DROPPED = 2
    LATE = 3
    LOST = 4

    @property
    def is_applied(self) -> bool:
        """Whether the weights contain the update."""
        return self in (Fate.DIRECT, Fate.AGGREGATED)


Entry = tuple[int, int]
"""The number of an update, and its fate: one line of a server's journal."""


@dataclass(frozen=True)
class Learnt:
    """News that a worker gets with new weights.

    Attributes:
        at: where its own update is among all that were decided, counted from 0.
        fate: what became of it.
        version: of the weights when that was decided, without it.
        applied: (rank, iteration) of each update that is new in these weights, in their order.
        known: how many entries of the journal it knows now.
    """

    at: int
    fate: Fate
    version: int
    applied: Sequence[tuple[int, int]]
    known: int


def learn(begin: int, begin_version: int, entries: Sequence[Entry], known: int, mine: int, world: int) -> Learnt:
    """Read a piece of the journal.

    Args:
        begin: number of its first entry, and ``begin_version`` that of the weights before it.
        known: how many entries of the journal were known before.
        mine: number of the update whose fate is asked for.
        world: number of workers.

    Raises:
        ValueError: entries are missing, it does not say what became of ``mine``, or says it twice.
    """
    if not 0 <= begin <= known <= begin + len(entries):
        raise ValueError(f"{known} entries are known, and told are {begin} to {begin + len(entries)}")
    version, own = begin_version, None
    applied = []
    for at, (number, told) in enumerate(entries, start=begin):
        fate = Fate(told)
        if number == mine and at >= known:
            if own is not None:
                raise ValueError(f"update {mine} is there twice")
            own = (at, fate, version)
        version += fate.is_applied
        if fate.is_applied and at >= known:
            iteration, rank = divmod(number, world)
            applied.append((rank, iteration))
    if own is None:
        raise ValueError(f"nothing is said of update {mine}")
    return Learnt(*own, applied, begin + len(entries))


FIX = "report it: the protocol is broken"


@dataclass(frozen=True)
class Line:
    """A line of a journal: the fate of an update, or of several that came in a sum."""

    fate: Fate
    updates: tuple[Update, ...]
    shares: tuple[tuple[float, float], ...]


def lines(journal: Sequence[Sequence[Any]], world: int) -> list[Line]:
    """Read the journal of a server or a replica."""
    found = []
    for fate, numbers, versions, shares in journal:
        pairs = zip(numbers, versions, strict=True)
        updates = tuple(Update(number % world, number // world, version) for number, version in pairs)
        counts = tuple((float(weights), float(velocity)) for weights, velocity in shares)
        if len(counts) != len(updates):
            raise WorkerError(f"of {len(updates)} updates a process tells what {len(counts)} count", fix=FIX)
        found.append(Line(Fate(fate), updates, counts))
    return found
