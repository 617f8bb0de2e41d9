"""The amount of work that a scheduler plans."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """The updates that are to be scheduled, and settings of the workload that the scheduler needs.

    Attributes:
        update_bytes: of one update, and of the weights.
        updates: how many in all.
        momentum: gamma of eq. 2.
        seed: of what is drawn.
        goodput: share of a link's rate that carries payload.
        learning_rate: the workload's; 1 where it has none.
    """

    update_bytes: float
    updates: int
    momentum: float
    seed: int
    goodput: float
    learning_rate: float = 1.0
