"""A job whose workers synchronise, in simulated time: its work as a player has it, and the lines that its processes
would have written."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from testbed.execution.observed import Lines
from testbed.trial.job import Job
from testbed.trial.job_files import jitter_of
from testbed.workloads.job import Replay
from testbed.workloads.learning.replay import FORWARD
from testbed.workloads.play.synchronisation import Synchronisation, jittering, ordered, passing
from testbed.workloads.sync.forest import Forest

DONE = {
    **dict.fromkeys(("cpu_s", "late_s", "stalled_s", "halted_s", "watched_s"), 0.0),
    **dict.fromkeys(("sent_segments", "resent_segments", "needless_segments", "wire_bytes"), None),
    **{"max_rss_bytes": 0, "sent": None},
}
"""Fields of a process's last line."""


@dataclass(frozen=True)
class Played:
    """Play of a job's workers: when it began, their ends (float64[iterations, workers]), when they had all sums (the
    same, unless steps jitter) and, where there are steps, when gradients were ready and how workers waited
    (:attr:`.Player.notes`); where forward passes begin early, when they began and ended (:attr:`.Player.passes_s`);
    and the bytes without headers, by pair of nodes (those of the work)."""

    job: Job
    work: Synchronisation
    begun_s: float
    ends_s: NDArray[np.float64]
    sums_s: NDArray[np.float64]
    notes: NDArray[np.float64]
    passes_s: NDArray[np.float64]
    sent_bytes: NDArray[np.float64]


def work_of(job: Job) -> Synchronisation:
    """Return the decisions of a job's nodes."""
    work = job.kind.simulation.synchronisation(job.plan, (job.gradient, job.chunk_bytes))
    late = [node for node in job.plan.workers if jitter_of(job, node)]
    has_passes, is_ordered = job.work.overlap == "both", job.work.priority == "layer"
    if late or has_passes or is_ordered:
        assert isinstance(job.plan, Forest)  # others have no steps that jitter, and what they send keeps its order
        work = jittering(work, job.plan, late) if late else work
        work = passing(work, job.plan) if has_passes else work
        work = ordered(work, job.plan.window) if is_ordered else work
    return work


def late_s(job: Job, work: Synchronisation) -> NDArray[np.float64]:
    """Draw by how much steps begin late, as :class:`testbed.workloads.sync.steps.Jitter` does: float64[iterations,
    draws]."""
    drawn = [np.zeros((job.iterations, 0))]
    for node, draws in zip(job.plan.workers, np.diff(work.late.draw_from).tolist(), strict=True):
        if jitter := jitter_of(job, node):
            each_s = np.random.default_rng(jitter.seed).normal(0.0, jitter.sigma_s, (job.iterations, draws))
            drawn.append(np.maximum(each_s, 0.0))
    return np.hstack(drawn)


def prepared_s(job: Job, work: Synchronisation) -> NDArray[np.float64]:
    """Return what a player is told of each iteration: when buckets are complete, or how long steps take."""
    return _times_s(job, work) if len(work.steps) else due_s(job)


def due_s(job: Job) -> NDArray[np.float64]:
    """Return when each bucket is complete after its worker has begun the iteration, float64[iterations, workers,
    buckets], as :class:`testbed.workloads.learning.replay.Player` has it. Where forward passes begin early, it counts
    from their end, but in the first iteration."""
    if job.work.overlap == "none":
        return job.pace_s.T[:, :, None]
    shares, slow = _shares(job), job.stragglers
    extra_s = 0.0 if slow is None else slow.extra_s.T[:, :, None]
    each_s = _factor(job) * (1 - FORWARD) * job.compute.pace_s * shares + extra_s * shares
    forward_s = _factor(job) * FORWARD * job.compute.pace_s * np.ones((job.iterations, job.world, 1))
    if job.work.overlap == "both":
        forward_s[1:] = 0.0
    return forward_s + np.cumsum(each_s, axis=-1)


def forward_s(job: Job) -> NDArray[np.float64] | None:
    """Return how long the layers of each bucket take in a forward pass that begins early, float64[iterations, workers,
    buckets]; None if passes do not."""
    if job.work.overlap != "both":
        return None
    each_s = _factor(job) * FORWARD * job.compute.pace_s * _shares(job)
    return np.broadcast_to(each_s, (job.iterations, job.world, each_s.shape[-1]))


def _shares(job: Job) -> NDArray[np.float64]:
    return np.array(cast("Replay", job.training).shares)  # of no other work layers leave early


def _factor(job: Job) -> NDArray[np.float64]:
    """Return by how much longer computing takes: float64[iterations, workers, 1]."""
    slow = job.stragglers
    return np.ones((1, 1, 1)) if slow is None else slow.factor.T[:, :, None]


def _times_s(job: Job, work: Synchronisation) -> NDArray[np.float64]:
    """Return how long steps take, float64[iterations, ...] (:meth:`.Steps.times_s`)."""
    slow, shape = job.stragglers, (job.world, job.iterations)
    factor, extra_s = (np.ones(shape), np.zeros(shape)) if slow is None else (slow.factor, slow.extra_s)
    return work.steps.times_s(job.compute.pace_s, factor, extra_s)


def lines(played: Played) -> dict[str, Lines]:
    """Return, by process, the lines that it would have written."""
    job, ends_s, notes = played.job, played.ends_s, played.notes
    sent_bytes = _by_nodes(played)
    ranks = {name: rank for rank, name in enumerate(job.workers)}
    start_s = np.vstack([np.full(job.world, played.begun_s), ends_s[:-1]])
    compute_s = due_s(job)[:, :, -1] if job.work.overlap == "layer" else job.pace_s.T
    ready_s = notes[:, :, 0] if len(notes) else start_s + compute_s
    if len(played.passes_s):
        begun_s, ended_s = np.moveaxis(played.passes_s[:-1], -1, 0)
        start_s[1:], ready_s[1:] = begun_s, ended_s + due_s(job)[1:, :, -1]
        ends_s = np.vstack([np.maximum(ends_s[:-1], ended_s), ends_s[-1:]])
    columns = (start_s, ready_s, played.sums_s, ends_s, compute_s)
    said: dict[str, Lines] = {}
    for name, node in job.processes.items():
        rank = ranks.get(name)
        own: Lines = []
        if rank is not None:
            rows = zip(*(each[:, rank].tolist() for each in columns), strict=True)
            own = [
                {
                    **{"kind": "iteration", "i": i, "rank": rank, "node": node, "loss": None},
                    **dict(zip(("start", "ready", "sum", "end", "compute_s"), row, strict=True)),
                    **{"overrun_s": 0.0, "wait_s": 0.0, "cpu_s": 0.0},
                }
                for i, row in enumerate(rows)
            ]
            for line, noted in zip(own, notes, strict=False):
                line.update(job.kind.simulation.iteration(tuple(noted[rank, 1:].tolist())))
        done = {**DONE, **job.kind.simulation.done(sent_bytes.get(node, {}))}
        said[name] = [hello(rank, node), *own, {"kind": "done", **done}]
    return said


def hello(rank: int | None, node: int) -> dict[str, Any]:
    """Return a process's first line."""
    return {"kind": "hello", "rank": rank, "node": node, "device": "none", "congestion_control": "none"}


def _by_nodes(played: Played) -> dict[int, dict[int, int]]:
    """Return the bytes without headers, by sender and receiver."""
    sent: dict[int, dict[int, int]] = defaultdict(dict)
    count = played.sent_bytes.round().astype(int)
    for (src, dst), nbytes in zip(played.work.pairs.tolist(), count.tolist(), strict=True):
        sent[src][dst] = nbytes
    return sent
