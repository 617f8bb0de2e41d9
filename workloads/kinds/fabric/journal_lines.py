"""A journal, as the process that kept it reports it in its last line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.learning.updates import Update

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
