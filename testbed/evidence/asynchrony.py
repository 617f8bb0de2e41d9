"""What a trial has done whose workers did not wait for each other: the workers' account against their server's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from testbed.base.errors import WorkerError
from testbed.trial.model import Network, Trial
from workloads.sync.cost import cost
from workloads.sync.ledger import Update, problem

FIX = "report it: the protocol is broken"


def order(trial: Trial, done: Sequence[Mapping[str, Any]]) -> list[Update]:
    """The updates as the server applied them, from its last line.

    Raises:
        WorkerError: that cannot be: one is missing, or was made by nobody, or by somebody too far ahead.
    """
    asynchronous = trial.network.forest.asynchronous
    assert asynchronous is not None  # or nobody asks
    (told,) = [line["updates"] for line in done if "updates" in line]
    updates = [Update(*one) for one in told]
    world = trial.network.world
    wrong = problem(updates, world, trial.iterations * world, asynchronous.staleness)
    if wrong:
        raise WorkerError(f"the server's updates are not those of scheme {trial.network.scheme_text}: {wrong}", fix=FIX)
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


def as_sent(network: Network, samples: pd.DataFrame, iterations: int) -> Network:
    """The network with the cost of an average synchronisation, given how many updates each worker really made."""
    counts = samples["rank"].value_counts()
    each = [counts.get(rank, 0) / iterations for rank in range(network.world)]
    return replace(network, cost=cost(network.forest, network.topology, 4 * network.floats, each))
