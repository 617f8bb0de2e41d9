"""What a trial has done whose workers did not wait for each other: the workers' account against their server's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from testbed.base.errors import WorkerError
from workloads.kinds.asynchronous.ledger import problem
from workloads.kinds.asynchronous.plan import staleness
from workloads.sync.forest import Forest
from workloads.updates import Update

FIX = "report it: the protocol is broken"


def order(plan: Forest, done: Sequence[Mapping[str, Any]], iterations: int) -> list[Update]:
    """The updates as the server applied them, from its last line.

    Raises:
        WorkerError: that cannot be: one is missing, or was made by nobody, or by somebody too far ahead.
    """
    (told,) = [line["updates"] for line in done if "updates" in line]
    updates = [Update(*one) for one in told]
    world = len(plan.workers)
    wrong = problem(updates, world, iterations * world, staleness(plan))
    if wrong:
        raise WorkerError(f"the server's updates are not those of scheme {plan.scheme}: {wrong}", fix=FIX)
    return updates


def attribute(samples: pd.DataFrame, updates: Sequence[Update]) -> pd.DataFrame:
    """The workers' samples, if each of the server's updates is one of them, as its worker knows it.

    Raises:
        WorkerError: a worker tells another story than the server.
    """
    known = samples.sort_values("update")
    told = list(zip(known["update"], known["rank"], known["iteration"], known["version"], strict=True))
    for at, (update, sample) in enumerate(zip(updates, told, strict=False)):
        if sample != (at, update.rank, update.iteration, update.version):
            raise WorkerError(f"update {at} is {update} to the server, and {sample} to worker {sample[1]}", fix=FIX)
    if len(told) != len(updates):
        raise WorkerError(f"workers have samples of {len(told)} updates, the server of {len(updates)}", fix=FIX)
    return samples


def updates_a_round(samples: pd.DataFrame, world: int, iterations: int) -> list[float]:
    """How many updates each rank made for each of the trial's iterations, on average."""
    counts = samples["rank"].value_counts()
    return [counts.get(rank, 0) / iterations for rank in range(world)]
