"""The update of weights by one gradient, where each is a step of its own, or several are summed and are a step
together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Update:
    """One gradient: the rank that made it, the iteration, and the version of the weights that it was computed on.

    A version is how many updates the weights contain. Where several servers have a part of the weights each, this is a
    gradient's part for one of them, with the version of that part (:mod:`testbed.workloads.learning.parts`).
    """

    rank: int
    iteration: int
    version: int
    server: int = 0
    on_former: bool = field(default=False, repr=False)
    """Whether the weights were those of a server that was lost since (:attr:`Step.by`)."""


@dataclass(frozen=True)
class Step:
    """One change of the weights: by an update, or by the sum of several.

    Attributes:
        updates: in their order.
        shares: what each counts in the sum for the weights, and in that for the velocity; of an update alone, the same
            number twice.
        is_sum: whether somebody summed them before.
        is_dropped: whether they changed nothing after all, and are in no version. Their workers have computed them all
            the same, and some tasks keep them (:meth:`testbed.workloads.tasks.base.Participant.dropped`).
        by: who made it, where a server was lost and its replica has served: ``former`` is that server, and ``replica``
            the replica before it served. All else is empty. Both make the same updates, maybe in other sums.
    """

    updates: tuple[Update, ...]
    shares: tuple[tuple[float, float], ...] = ((1.0, 1.0),)
    is_sum: bool = False
    is_dropped: bool = False
    by: str = ""

    @classmethod
    def load(cls, told: Mapping[str, Any]) -> Step:
        """Load a step from fields that were read from JSON."""
        updates = tuple(Update(**one) for one in told["updates"])
        shares = tuple((weights, velocity) for weights, velocity in told["shares"])
        return cls(updates, shares, told["is_sum"], told["is_dropped"], told["by"])


def steps(order: Iterable[Update | Step]) -> Sequence[Step]:
    """Return the steps of an order, each update as a step of its own."""
    return [one if isinstance(one, Step) else Step((one,)) for one in order]
