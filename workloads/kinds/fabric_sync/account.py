"""Checks of a synchronous trial whose sums a scheduler has planned, after it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.base import Told
from testbed.workloads.kinds.fabric.account import carried, misplaced, moved, on_our_clock, other_order, took
from testbed.workloads.kinds.fabric.fates import FIX, Line, lines
from testbed.workloads.kinds.fabric.plan import Fabric


def told(plan: Fabric, samples: pd.DataFrame, done: Sequence[Mapping[str, Any]], iterations: int) -> Told:
    """Return the samples, and what was sent.

    Raises:
        WorkerError: the processes' accounts cannot be, or contradict each other.
    """
    (scheduler,) = [one for one in done if "transfers" in one]
    world = len(plan.workers)
    rows, wrong = whole([one["journal"] for one in done if "journal" in one], plan)
    journal = lines(rows, world)
    transfers = on_our_clock(scheduler)
    wrong = wrong or problem(journal, world, iterations) or misplaced(transfers, plan, done)
    if wrong := wrong or other_order(scheduler["order"], journal, world):
        raise WorkerError(f"what the processes of scheme {plan.scheme} tell does not fit together: {wrong}", fix=FIX)
    return Told(
        samples,
        moved=moved([one[:3] for one in transfers], iterations),
        transfers=carried(transfers, plan),
        metrics=took(scheduler["plans_s"]),
    )


def whole(journals: Sequence[Sequence[Any]], plan: Fabric) -> tuple[Sequence[Any], str]:
    """Merge the lines of all journals in the order of iterations, and describe the first root that has reported another
    root's iteration; empty if none has."""
    if not plan.roots:
        (journal,) = journals
        return journal, ""
    world, wrong = len(plan.workers), ""
    told = [(line[1][0] // world, root, line) for root, one in zip(plan.roots, journals, strict=True) for line in one]
    for iteration, root, _ in told:
        if plan.servers_at(iteration) != (root,):
            wrong = f"{plan.nodes[root]} made sum {iteration}, whose root is another"
    return [line for *_, line in sorted(told, key=lambda one: one[0])], wrong


def problem(journal: Sequence[Line], world: int, iterations: int) -> str:
    """Describe the first mistake in a journal; empty if it is right. Each sum must have each worker's gradient of it
    once."""
    updates = [update for line in journal if line.fate.is_applied for update in line.updates]
    if len(updates) != world * iterations:
        return f"{len(updates)} gradients were added, of {world * iterations}"
    for iteration in range(iterations):
        those = updates[world * iteration : world * (iteration + 1)]
        if sorted((one.iteration, one.rank) for one in those) != [(iteration, rank) for rank in range(world)]:
            return f"sum {iteration} is of {[(one.rank, one.iteration) for one in those]}, as (rank, iteration)"
    return ""
