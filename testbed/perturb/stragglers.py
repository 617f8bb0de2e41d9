"""Extra time that each worker computes in each iteration, drawn before the trial starts; and counts of what strikes by
chance in a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from testbed.analysis.strikes import Strikes
from testbed.base.listing import counted
from testbed.perturb import targets
from testbed.perturb.kinds.base import COMPUTING, Context, Perturbation
from testbed.topologies.model import Topology


@dataclass(frozen=True, eq=False)
class Stragglers:
    """Slowdowns, float64[workers, iterations] each: computing takes ``factor`` times as long and ``extra_s`` more.

    Several perturbations multiply their factors and add their times.
    """

    factor: NDArray[np.float64]
    extra_s: NDArray[np.float64]


@dataclass(frozen=True)
class Workers:
    """The workers of a trial, with each one's rank by its host; ``folder`` is the spec's directory."""

    topology: Topology
    rank: Mapping[int, int]
    folder: Path

    def chosen(self, names: Sequence[str] | None) -> list[int]:
        """Ranks on these hosts; all where no names are given.

        Raises:
            SpecError: there is no such host.
        """
        return [self.rank[host] for host in targets.hosts(self.topology, names) if host in self.rank]


def draw(
    perturbations: Sequence[Perturbation],
    topology: Topology,
    workers: Sequence[int],
    iterations: int,
    seed: int,
    folder: Path,
) -> Stragglers | None:
    """Draw all slowdowns; each perturbation has random numbers of its own, so that adding one leaves the others as they
    were.

    None if nothing of this kind is among the perturbations.

    Raises:
        SpecError: it names a host that there is not, or a trace that cannot be read.
    """
    lengthening = [(number, one) for number, one in enumerate(perturbations) if COMPUTING in one.effects]
    if not lengthening:
        return None
    shape = (len(workers), iterations)
    whose = Workers(topology, {host: r for r, host in enumerate(workers)}, folder)
    drawn = Stragglers(np.ones(shape), np.zeros(shape))
    for number, one in lengthening:
        one.lengthen(drawn, whose, np.random.default_rng([seed, number]))
    return drawn


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
