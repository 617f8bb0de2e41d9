"""Counts of what strikes by chance in a trial, found by playing the draws of perturbations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from testbed.analysis.strikes import Strikes
from testbed.base.listing import counted
from testbed.perturb.kinds.base import Context, Perturbation
from testbed.perturb.stragglers import Stragglers, Workers
from testbed.topologies.model import Topology

Struck = Mapping[str, NDArray[np.bool_]]
"""Iterations in which a worker computes for longer, bool[iterations], by the worker's host."""


def struck(
    number: int,
    one: Perturbation,
    topology: Topology,
    workers: Sequence[int],
    iterations: int,
    seed: int,
    folder: Path,
) -> Struck:
    """Find the iterations that a perturbation of computing makes longer, for each worker that it may hit."""
    whose = Workers(topology, {host: rank for rank, host in enumerate(workers)}, folder)
    shape = (len(workers), iterations)
    drawn = Stragglers(np.ones(shape), np.zeros(shape))
    one.lengthen(drawn, whose, np.random.default_rng([seed, number]))
    longer = (drawn.factor != 1.0) | (drawn.extra_s > 0.0)
    return {topology.nodes[workers[rank]].name: longer[rank] for rank in one.may_lengthen(whose)}


def of_computing(one: Perturbation, by_host: Sequence[Struck]) -> Strikes | None:
    """Count the strikes in all jobs of a trial whose workers compute for us; None where there are none, or every chance
    is taken."""
    counts = [(name, each) for found in by_host for name, each in found.items()]
    chances, taken = sum(each.size for _, each in counts), int(sum(each.sum() for _, each in counts))
    if not by_host or 0 < taken == chances:
        return None
    names = list(dict.fromkeys(name for name, _ in counts))
    of = f"iterations of {_whose(names)}" if names else "iterations, since no worker runs on its hosts"
    return Strikes(one.title, taken, chances, of)


def of_links(one: Perturbation, context: Context, until_s: float) -> Strikes | None:
    """Count the strikes of a perturbation that draws changes of links again and again, until so long after the trial's
    beginning."""
    counts = one.changes_by_chance(context, until_s)
    if counts is None:
        return None
    taken, chances = counts
    return Strikes(one.title, taken, chances, "draws of a link's rate")


def _whose(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else counted(len(names), "worker")
