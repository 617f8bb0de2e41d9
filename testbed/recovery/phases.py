"""The phases of a job: iterations that the same workers did along the same forest. One, unless nodes died."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from testbed.trial.job import Job


@dataclass(frozen=True)
class Phase:
    """Phase of a job: iterations ``first`` to ``stop`` - 1."""

    first: int
    stop: int
    job: Job

    @property
    def iterations(self) -> int:
        return self.stop - self.first


def split(changes: Sequence[tuple[int, Job]], iterations: int) -> tuple[Phase, ...]:
    """Split a job into phases. ``changes`` are (first iteration, job) in order; one that another replaced before any
    iteration is left out.

    Of a trial that was over when the last node died, what it would have gone on with is left out, too.
    """
    stops = [first for first, _ in changes[1:]] + [iterations]
    return tuple(Phase(first, stop, job) for (first, job), stop in zip(changes, stops, strict=True) if first < stop)


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
