"""Phases of a job: iterations that the same workers did by the same plan over the same network.

A job has one phase, unless nodes died, circuits moved, or a controller switched the plan. Each phase has a
:class:`Cause`. Bounds, byte checks and the verdict follow phases, whatever began them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from testbed.perturb.circuits import History, by_count, lit_shares, mixed_cost, sent_shares
from testbed.trial.job import Job
from testbed.workloads import kinds
from testbed.workloads.plan import Plan


@dataclass(frozen=True)
class Cause:
    """Cause of a phase: ``kind`` in a word, such as ``timer`` or ``measurement``; ``what`` tells people more."""

    kind: str
    what: str = ""


BEGINNING, DEATH, CIRCUITS = Cause("beginning"), "death", "circuits"


class Change(NamedTuple):
    """Iteration from which on a job has another plan, that job, and why."""

    first: int
    job: Job
    cause: Cause


@dataclass(frozen=True)
class Phase:
    """Phase of a job: iterations ``first`` to ``stop`` - 1."""

    first: int
    stop: int
    job: Job
    cause: Cause = BEGINNING

    @property
    def iterations(self) -> int:
        return self.stop - self.first


def replanned(job: Job, plan: Plan) -> Job:
    """Return the job with another plan, verified.

    Raises:
        SchemeError: the plan does not do what it is for.
    """
    kinds.verify(plan, job.network.topology)
    return replace(job, plan=plan, cost=kinds.cost(plan, job.network.topology, job.gradient_bytes))


def split(changes: Sequence[Change], iterations: int) -> tuple[Phase, ...]:
    """Split a job into phases. ``changes`` are in order, the beginning included; one that another replaced before any
    iteration is left out.

    Of a trial that was over when the last node died, what it would have gone on with is left out, too.
    """
    stops = [change.first for change in changes[1:]] + [iterations]
    return tuple(
        Phase(first, stop, job, cause) for (first, job, cause), stop in zip(changes, stops, strict=True) if first < stop
    )


def over_circuits(
    phase: Phase,
    history: History,
    windows: Mapping[int, tuple[float, float]],
    counted_bytes: tuple[float, float] | None = None,
) -> list[Phase]:
    """Split a phase by the circuits over which its iterations were synchronised: by what had been sent when circuits
    moved, or else by time, in these windows (start, end in s). An iteration in which circuits moved is a phase of its
    own, with the mean of their costs. ``counted_bytes`` is what links had carried before the first iteration and after
    the last one, if they carried nothing else meanwhile.
    """
    job = phase.job
    states = [
        replace(
            job,
            network=replace(job.network, topology=state.topology),
            cost=kinds.cost(job.plan, state.topology, job.gradient_bytes),
        )
        for state in history
    ]
    if counted_bytes is not None:
        history = by_count(history, [float(each.cost.link_bytes.sum()) for each in states], windows, counted_bytes)
    found: list[Phase] = []
    for i in range(phase.first, phase.stop):
        sent = sent_shares(history, i)
        shares = lit_shares(history, windows[i]) if sent is None else sent
        lit = np.flatnonzero(shares)
        over = states[lit[0]] if len(lit) == 1 else replace(job, cost=mixed_cost([one.cost for one in states], shares))
        if found and found[-1].job is over:
            found[-1] = replace(found[-1], stop=i + 1)
        else:
            found.append(Phase(i, i + 1, over, Cause(CIRCUITS) if found else phase.cause))
    return found


def on_average(phases: Sequence[Phase]) -> Job:
    """Return the job of the first phase with the mean cost of an iteration, if it had several."""
    first, *others = phases
    if not others:
        return first.job
    shares = np.array([phase.iterations for phase in phases]) / sum(phase.iterations for phase in phases)
    return replace(first.job, cost=mixed_cost([one.job.cost for one in phases], shares))


def link_bytes(phases: Sequence[Phase]) -> NDArray[np.float64]:
    """Bytes of gradient on each link in all iterations of all phases, float64[directed links]."""
    total: NDArray[np.float64] = np.sum([phase.job.cost.link_bytes * phase.iterations for phase in phases], axis=0)
    return total


def wire_bytes(phases: Sequence[Phase]) -> float:
    """Bytes that all nodes together send in all iterations of all phases."""
    return float(sum(phase.job.cost.wire_bytes * phase.iterations for phase in phases))


def contributions(phases: Sequence[Phase]) -> int:
    """Number of gradients that were summed: one a worker and iteration."""
    return sum(phase.job.world * phase.iterations for phase in phases)


def gst_theory_s(phases: Sequence[Phase]) -> pd.Series[float]:
    """Compute the least time that each iteration's synchronisation can take (s)."""
    bounds = [phase.job.gst_theory_s for phase in phases for _ in range(phase.iterations)]
    return pd.Series(bounds, name="gst_theory_s")


def attribute(
    samples: pd.DataFrame, phases: Sequence[Phase], dead: Collection[int], behind: Collection[tuple[int, int]]
) -> pd.DataFrame:
    """Choose the samples of iterations that counted, each with its worker's first ``rank`` and its iteration's
    ``world``.

    ``dead`` are the nodes that died. ``behind`` are (node, iteration) of workers that had not done an iteration when
    others had, and took it over from them. What a worker that died had done of an iteration that the others then did
    anew is left out. ``world`` is how many samples the iteration has: of each worker, but those behind and those that
    died in it.

    Raises:
        WorkerError: a worker lacks an iteration that it must have done.
    """
    ranks = {node: rank for rank, node in enumerate(phases[0].job.plan.workers)}
    everyone = [set(phase.job.plan.workers) for phase in phases]
    kept = []
    for phase, workers, after in zip(phases, everyone, [*everyone[1:], everyone[-1] - set(dead)], strict=True):
        rows = samples[samples["iteration"].between(phase.first, phase.stop - 1) & samples["node"].isin(workers)]
        done = rows.groupby("iteration")["node"].agg(set)
        for iteration in range(phase.first, phase.stop):
            needed = after if iteration == phase.stop - 1 else workers
            missing = {node for node in needed - done.get(iteration, set()) if (node, iteration) not in behind}
            if missing:
                name = phase.job.plan.nodes[min(missing)]
                raise WorkerError(f"{name} has no sample of iteration {iteration}", fix="run the trial again")
        kept.append(rows.assign(world=rows.groupby("iteration")["node"].transform("nunique")))
    found = pd.concat(kept)
    return found.assign(rank=found["node"].map(ranks)).sort_values(["rank", "iteration"], ignore_index=True)
