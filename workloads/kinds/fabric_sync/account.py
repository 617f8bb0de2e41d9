"""What a synchronous trial has done whose sums a scheduler has planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from testbed.base.errors import WorkerError
from workloads.kinds.base import Told
from workloads.kinds.fabric.account import FIX, Line, carried, lines, lost, moved, on_our_clock, other_order, took
from workloads.kinds.fabric.fates import Fate
from workloads.kinds.fabric.plan import Fabric


def told(plan: Fabric, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
    """The samples, and what was sent.

    Raises:
        WorkerError: the processes' accounts cannot be, or contradict each other.
    """
    (server,) = [one for one in done if "journal" in one]
    (scheduler,) = [one for one in done if "transfers" in one]
    world = len(plan.workers)
    journal = lines(server["journal"], world)
    _refuse_dropped(plan, journal)
    wrong = problem(journal, world, iterations) or lost(scheduler["transfers"])
    if wrong := wrong or other_order(scheduler["order"], journal, world):
        raise WorkerError(f"what the processes of scheme {plan.scheme} tell does not fit together: {wrong}", fix=FIX)
    transfers = on_our_clock(scheduler)
    return Told(
        samples,
        moved=moved(transfers, iterations),
        transfers=carried(transfers, plan),
        metrics=took(scheduler["plans_s"]),
    )


def _refuse_dropped(plan: Fabric, journal: Sequence[Line]) -> None:
    """
    Raises:
        WorkerError: a gradient was not sent.
    """
    dropped = [update.rank for line in journal if line.fate == Fate.DROPPED for update in line.updates]
    if dropped:
        host = plan.nodes[plan.workers[dropped[0]]]
        raise WorkerError(
            f"a gradient of {host} was not sent, because a link on its way carried nothing",
            fix=f"let no perturbation take a link down under scheme {plan.scheme}",
        )


def problem(journal: Sequence[Line], world: int, iterations: int) -> str:
    """What is wrong with a journal; empty if nothing is. Each sum must have each worker's gradient of it once."""
    updates = [update for line in journal if line.fate.is_applied for update in line.updates]
    if len(updates) != world * iterations:
        return f"{len(updates)} gradients were added, of {world * iterations}"
    for iteration in range(iterations):
        those = updates[world * iteration : world * (iteration + 1)]
        if sorted((one.iteration, one.rank) for one in those) != [(iteration, rank) for rank in range(world)]:
            return f"sum {iteration} is of {[(one.rank, one.iteration) for one in those]}, as (rank, iteration)"
    return ""
