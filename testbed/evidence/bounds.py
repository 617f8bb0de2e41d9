"""Lower bounds of a trial's numbers, whatever happened on the machine: from the links, the bytes and the pace.

A bound and a measurement bracket the truth: a number that is 1.01 times its bound is too long by at most 1 %. So each
bound must hold for certain, iteration by iteration, given when each worker had its gradient in it. (A ring's last
worker has all its own transfers ahead of it; over a link that many share, much may have been sent before.)

Only durations are taken from the samples, never rates or bytes, so that links which were faster than asked show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from testbed.perturb.capacity import Capacity, capacity
from testbed.perturb.registry import PERTURBATIONS
from testbed.topologies.sharing import groups
from testbed.trial.job import Job
from testbed.trial.phases import Phase
from testbed.workloads.sync.cost import Releases

MOST_MOMENTS = 16
"""The most of the workers' moments from which bytes that cannot have left before are added up; with more workers,
evenly spread ones."""

MOVING = frozenset(name for name, kind in PERTURBATIONS.items() if kind.moves_circuits)
"""Kinds of events that move circuits."""


@dataclass(frozen=True)
class Bounds:
    """Least times (s) of a synchronous trial, by iteration.

    Attributes:
        gst_s: from the last worker's gradient to the last worker's sum; 0 where nothing is certain, such as where
            gradients leave before they are complete.
        iteration_s: from the last worker's sum, or the trial's start, to the next one; None where it is not known how
            long computing takes.
        waits_s: how long each rank (a column) would wait for the slowest one's gradient if all kept their pace from the
            previous sum on; None if ``iteration_s`` is None, or if gradients leave as they are computed.
        lead_s: the longest time by which one worker can have the sum before the last one; None if ``waits_s`` is None,
            or if links or circuits were changed on purpose.
    """

    gst_s: pd.Series[float]
    iteration_s: pd.Series[float] | None
    waits_s: pd.DataFrame | None = None
    lead_s: pd.Series[float] | None = None

    @property
    def jct_s(self) -> float | None:
        """Least time of the whole trial (s)."""
        return None if self.iteration_s is None else float(self.iteration_s.sum())


def bounds(job: Job, samples: pd.DataFrame, phases: Sequence[Phase], events: Sequence[Mapping[str, Any]]) -> Bounds:
    """Compute the bounds of a synchronous job.

    Args:
        samples: of all its iterations.
        events: what was done to it on purpose, as its record holds it: rates that were changed count from moment to
            moment.
    """
    start_s = float(samples["start_s"].min())
    rates = capacity(job.network.topology, events)
    each = {id(phase.job): _Least(phase.job, rates) for phase in phases}
    of = {i: each[id(phase.job)] for phase in phases for i in range(phase.first, phase.stop)}
    by, found = samples.groupby("iteration"), []
    moves = [
        (one["begun_s"], math.inf if one["done_s"] is None else one["done_s"])
        for one in events
        if one["kind"] in MOVING and one["begun_s"] is not None
    ]
    for i in sorted(of):
        rows = by.get_group(i)
        ready_s = dict(zip(rows["node"], rows["ready_s"] - start_s, strict=True))
        last_s = float(rows["sum_s"].max()) - start_s
        begin_s = min(ready_s.values()) if job.work.overlap == "none" else float(rows["start_s"].min()) - start_s
        moved = any(begun_s <= last_s and done_s >= begin_s for begun_s, done_s in moves)
        # Who died in it may have sent, and some never got the sum; over circuits that move each flow may have its best.
        if moved or len(ready_s) < of[i].world:
            found.append({"iteration": i, "gst_s": 0.0, "whole_s": 0.0, "lead_s": 0.0})
            continue
        whole_s = of[i].whole_s(begin_s)
        # Where they overlap, gradients leave all along, and what the last bucket takes says little.
        gst_s = max(0.0, of[i].sum_s(ready_s) - max(ready_s.values())) if job.work.overlap == "none" else 0.0
        found.append({"iteration": i, "gst_s": gst_s, "whole_s": whole_s, "lead_s": of[i].lead_s})
    least = pd.DataFrame(found).set_index("iteration")
    iteration_s, waits_s = _computing(job, samples, least)
    changed = waits_s is None or bool(moves) or any(event.get("links") for event in events)
    lead_s = None if changed else least["lead_s"] + np.ptp(job.pace_s, axis=0)[: len(least)]
    return Bounds(least["gst_s"], iteration_s, waits_s, lead_s)


class _Least:
    """The least times of a job's synchronisations; moments are in seconds from the trial's start."""

    def __init__(self, job: Job, rates: Capacity) -> None:
        self._job, self._shaper, self._rates = job, job.shaper, rates
        self.world = job.world

    def whole_s(self, from_s: float) -> float:
        """Seconds that all that is to be sent takes from a moment on."""
        cost = self._job.cost
        if cost.moved:  # circuits, meanwhile: of the best of them
            return cost.bound_s(self._shaper)
        return self._least_s(cost.late_bytes, from_s)

    @cached_property
    def lead_s(self) -> float:
        """The longest time by which one worker can have the sum before the last one, if all gradients are ready at
        once. A worker has its sum only when all bytes that come into it have arrived."""
        topology, cost = self._job.network.topology, self._job.cost
        link_s = self._shaper.least_s(cost.late_bytes, cost.link_rate_bps)
        into_s = [max(link_s[one ^ 1] for one in topology.ports[node]) for node in self._job.plan.workers]
        return max(0.0, cost.bound_s(self._shaper) - float(min(into_s)))

    def sum_s(self, ready_s: Mapping[int, float]) -> float:
        """Compute the first moment at which everybody can have the sum, given when each worker (by node) has its
        gradient.

        On each link, from any moment on, all that cannot have left before has still to leave.
        """
        first_s = min(ready_s.values())
        whole_s = first_s + self.whole_s(first_s)
        done_s = self._job.cost.done_s(ready_s, self._shaper)
        if done_s is not None:
            return done_s
        releases = None if self._job.cost.moved else self._releases
        if releases is None:
            return whole_s
        edges_s = releases.edges_s(ready_s)
        moments = sorted(ready_s.values(), reverse=True)
        chosen = moments[:: -(-len(moments) // MOST_MOMENTS)]
        later = (at_s + self._least_s(releases.link_bytes(edges_s, at_s), at_s) for at_s in chosen)
        return max(whole_s, *later)

    def _least_s(self, link_bytes: NDArray[np.float64], from_s: float) -> float:
        """Least time in which links carry their bytes (s). Links among which switches share by hashing count together,
        at all of their rates: nobody knows which path a flow takes."""
        rate_bps, links = self._job.cost.link_rate_bps, self._shaper
        alone = links.at_rate_bytes(link_bytes, rate_bps)
        found_s = 0.0
        for group in self._shared:
            together = float((link_bytes[group] / links.goodput - links.early_bytes(rate_bps[group])).sum())
            found_s = max(found_s, 8 * together / float(rate_bps[group].sum()))
            alone[group] = 0.0
        found_s = max(found_s, self._rates.least_s(alone, from_s))
        return found_s if math.isfinite(found_s) else 0.0  # a link that nobody knows to have been opened again

    @cached_property
    def _shared(self) -> list[list[int]]:
        """Groups of directed links."""
        job = self._job
        return [list(group) for group in groups(job.network.topology, job.kind.pairs(job.plan)) if len(group) > 1]

    @cached_property
    def _releases(self) -> Releases | None:
        job = self._job
        return job.kind.releases(job.plan, job.network.topology, job.gradient_bytes)


def _computing(
    job: Job, samples: pd.DataFrame, least: pd.DataFrame
) -> tuple[pd.Series[float] | None, pd.DataFrame | None]:
    """Compute two things: the least time of each iteration, which is the slowest worker's pace plus the least GST, or
    the longer of both with overlap; and how long the others wait for that worker (see :class:`Bounds`).

    A worker that has the sum before others begins before them, so its pace counts from there.
    """
    if job.compute.mode == "real" or job.work.overlap == "both":
        return None, None
    sums = samples.pivot(index="iteration", columns="rank", values="sum_s")
    ahead_s = sums.rsub(sums.max(axis=1), axis=0).shift(fill_value=0.0).where(sums.notna())
    pace_s = pd.DataFrame(job.pace_s.T).reindex(index=sums.index, columns=sums.columns)
    due_s = pace_s - ahead_s
    computing_s = due_s.max(axis=1).clip(lower=0.0)
    if job.work.overlap == "none":
        return (computing_s + least["gst_s"]).rename("iteration_s"), due_s.rsub(due_s.max(axis=1), axis=0)
    sending_s = least["whole_s"] - ahead_s.max(axis=1)
    return computing_s.where(computing_s > sending_s, sending_s).rename("iteration_s"), None
