"""Checks of an asynchronous trial after it ended: the workers' account against their servers'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.asynchronous.ledger import FIX, disagreement, problem
from testbed.workloads.kinds.asynchronous.plan import replicas, servers, staleness
from testbed.workloads.learning.updates import Update
from testbed.workloads.sync.forest import Forest


def orders(plan: Forest, done: Sequence[Mapping[str, Any]], iterations: int) -> list[list[Update]]:
    """Read the updates in the order in which each server applied them, from its last line; servers are in the order of
    their parts.

    Raises:
        WorkerError: that cannot be: one is missing, or was made by nobody, or by somebody too far ahead; or not all
            servers applied the same ones.
    """
    told = {line["name"]: line["updates"] for line in done if "updates" in line}
    served, world = [plan.nodes[node] for node in servers(plan)], len(plan.workers)
    found = [
        [Update(rank, iteration, version, server) for rank, iteration, version in told[name]]
        for server, name in enumerate(served)
    ]
    for name, order in zip(served, found, strict=True):
        wrong = problem(order, world, iterations * world, staleness(plan))
        if wrong:
            whose = "the server's updates" if len(served) == 1 else f"the updates of {name}"
            raise WorkerError(f"{whose} are not those of scheme {plan.scheme}: {wrong}", fix=FIX)
    check_replicas(plan, done, found)
    wrong = disagreement(found)
    if wrong:
        raise WorkerError(f"the servers {', '.join(served)} do not agree: {wrong}", fix=FIX)
    return found


def check_replicas(plan: Forest, done: Sequence[Mapping[str, Any]], orders: Sequence[Sequence[Update]]) -> None:
    """
    Raises:
        WorkerError: a server's replica has applied others than its updates, or has come to other weights.
    """
    lines = {line["name"]: line for line in done}
    for (server, replica), order in zip(replicas(plan).items(), orders, strict=False):
        one, copy = plan.nodes[server], plan.nodes[replica]
        if [tuple(update) for update in lines[copy]["replicated"]] != [(each.rank, each.iteration) for each in order]:
            raise WorkerError(f"the replica {copy} has other updates than the server {one}", fix=FIX)
        if lines[copy]["part_sha256"] != lines[one]["part_sha256"]:
            raise WorkerError(f"the replica {copy} ended with other weights than the server {one}", fix=FIX)


def attribute(samples: pd.DataFrame, orders: Sequence[Sequence[Update]]) -> pd.DataFrame:
    """Return the workers' samples if each update of each server is one of them, as its worker knows it.

    Raises:
        WorkerError: a worker tells another story than a server.
    """
    for server, order in enumerate(orders):
        number, version = (f"{name}_{server}" if server else name for name in ("update", "version"))
        _attribute(samples, order, number, version)
    return samples


def _attribute(samples: pd.DataFrame, order: Sequence[Update], number: str, version: str) -> None:
    """Check one server's updates; ``number`` and ``version`` are the columns with what workers know of that server."""
    known = samples.sort_values(number)
    told = list(zip(known[number], known["rank"], known["iteration"], known[version], strict=True))
    for at, (update, sample) in enumerate(zip(order, told, strict=False)):
        if sample != (at, update.rank, update.iteration, update.version):
            raise WorkerError(f"update {at} is {update} to the server, and {sample} to worker {sample[1]}", fix=FIX)
    if len(told) != len(order):
        raise WorkerError(f"workers have samples of {len(told)} updates, the server of {len(order)}", fix=FIX)


def updates_a_round(samples: pd.DataFrame, world: int, iterations: int) -> list[float]:
    """Count how many updates each rank made for each of the trial's iterations, on average."""
    counts = samples["rank"].value_counts()
    return [counts.get(rank, 0) / iterations for rank in range(world)]
