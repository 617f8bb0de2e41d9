"""Course of a trial in which nodes died and the others went on, and how its record tells of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import pandas as pd

from testbed.analysis import metrics
from testbed.base.listing import counted
from testbed.trial.job import Job
from testbed.trial.phases import BEGINNING, CIRCUITS, DEATH, Change, Phase, split

LostUpdates: TypeAlias = Mapping[int, Sequence[tuple[int, int]]]
"""Updates as (rank, iteration), by node."""


@dataclass(frozen=True)
class Death:
    """Death of a process: ``at_s`` is when it ended, on the clock of samples; ``how`` goes after its name."""

    process: str
    node: int
    at_s: float
    how: str


@dataclass(frozen=True)
class Noticed:
    """Report of the others that a node's processes are lost: when they noticed that, and when weights were changed next
    (None if they were not); in seconds on the clock of samples. ``updates`` are those that were lost with it, as (rank,
    iteration), if it was started again."""

    node: int
    at_s: float
    commit_s: float | None
    updates: tuple[tuple[int, int], ...] = ()

    @property
    def recovered_s(self) -> float | None:
        """Seconds from the first to the second moment; None if weights were not changed."""
        return None if self.commit_s is None else self.commit_s - self.at_s


@dataclass(frozen=True)
class Loss:
    """Loss of a node's processes, without which the others went on by themselves.

    Attributes:
        processes: those that ended, and how, to go after their names.
        ended_s: when the first of them had ended; None if none did.
        hit_s: when something was done on purpose that explains it; None where nothing was.
        noticed: what the others tell of it; None if all was done before they would have noticed.
        roles: what the processes were for that were lost first; others of the node may have ended for want of them.
    """

    node: int
    processes: Mapping[str, str]
    ended_s: float | None
    hit_s: float | None
    noticed: Noticed | None
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recovery:
    """A round of recovery: who had died since the last, and with which iteration and plan the others went on.

    ``behind`` are the nodes that took the weights of ``ahead``; ``called_s`` and ``sent_on_s`` are when the round began
    and ended, on the clock of samples.
    """

    deaths: tuple[Death, ...]
    first: int
    job: Job
    ahead: int
    behind: tuple[int, ...]
    called_s: float
    sent_on_s: float


@dataclass(frozen=True)
class Course:
    """Phases of a job, and the rounds that ended them; ``late`` are those who died when nothing was left to do, and
    ``losses`` those without whom the others went on by themselves, in no round."""

    phases: tuple[Phase, ...]
    recoveries: tuple[Recovery, ...] = ()
    late: tuple[Death, ...] = ()
    losses: tuple[Loss, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nobody died."""
        return not self.deaths and not self.losses

    @property
    def deaths(self) -> tuple[Death, ...]:
        return (*(death for recovery in self.recoveries for death in recovery.deaths), *self.late)

    @property
    def dead(self) -> set[int]:
        return {death.node for death in self.deaths} | {loss.node for loss in self.losses}

    @property
    def behind(self) -> set[tuple[int, int]]:
        """Pairs (node, iteration) of each iteration whose outcome a worker took from another."""
        return {(node, recovery.first - 1) for recovery in self.recoveries for node in recovery.behind}


def undisturbed(job: Job, losses: Sequence[Loss] = ()) -> Course:
    """Make the course of a job in which nobody died, or only those without whom the others went on by themselves."""
    return Course((Phase(0, job.iterations, job),), losses=tuple(losses))


def switched(course: Course, changes: Sequence[Change]) -> Course:
    """Return the course with the changes of the plan that controllers told of, in a job that has no others."""
    if not changes:
        return course
    job, in_order = course.phases[0].job, sorted(changes, key=lambda change: change.first)
    return replace(course, phases=split([Change(0, job, BEGINNING), *in_order], job.iterations))


def spoilt_bytes(job: Job, course: Course) -> float:
    """Compute the most bytes, headers included and counted on every link, that iterations which were broken off, and
    weights that were given on, can have put on the wire beside those of all iterations that counted."""
    whole = 0.0
    before = [job, *(recovery.job for recovery in course.recoveries)]
    for one, recovery in zip(before, course.recoveries, strict=False):
        whole += float(one.cost.link_bytes.sum())
        for node in recovery.behind:
            (path, *_) = job.network.topology.paths(recovery.ahead, node)
            whole += 2 * job.gradient_bytes * len(path.links)
    return whole / job.network.goodput


def unasked(job: Job, course: Course) -> int:
    """Count the dead that no perturbation of the spec kills, or freezes, or, if the others went on by themselves, cuts
    off."""
    network = job.network
    asked = {name for one in network.perturbations for name in (*one.kills, *one.stops)}
    nodes = network.topology.nodes
    died = sum(asked.isdisjoint({death.process, nodes[death.node].name}) for death in course.deaths)
    return died + sum(loss.hit_s is None for loss in course.losses)


def sentence(course: Course) -> str:
    """Say who died, and who went on with what."""
    told = []
    for recovery in course.recoveries:
        if recovery.deaths:
            told.append(
                f"{who(recovery.deaths)}; from iteration {recovery.first} on "
                f"{counted(recovery.job.world, 'worker')} with {goes_on_as(recovery.job)}"
            )
        else:
            told.append(f"from iteration {recovery.first} on all again, because no worker made progress")
    if course.late:
        told.append(f"{who(course.late)} when all was done")
    if course.losses:
        names = course.phases[0].job.plan.nodes
        told.append("; ".join(f"{_how(loss, names)}; the others went on" for loss in course.losses))
    return "; ".join(told)


def goes_on_as(job: Job) -> str:
    """Name what is left of a scheme: ``rina, leaf1 adding``, or ``rina, a ring``."""
    inner = [node for node in job.processes.values() if node not in job.plan.workers]
    what = f"{', '.join(job.plan.nodes[node] for node in inner)} adding" if inner else "a ring"
    return f"{job.scheme_text}, {what}"


def record(
    course: Course, samples: pd.DataFrame, lost_updates: LostUpdates = MappingProxyType({})
) -> dict[str, Any] | None:
    """Part of the trial's JSON, times in seconds since the first iteration began; None if nobody died. ``lost_updates``
    are those of which only the account of the whole trial tells (:class:`testbed.workloads.kinds.base.Told`).

    ``recovered_s`` of a round counts from the first of its deaths (or, where a process stood still, from when that was
    noticed) to the end of the next iteration; it is None where none was left.
    """
    start_s = float(samples["start_s"].min())
    names = course.phases[0].job.plan.nodes
    if course.losses:
        return {"losses": [_loss(loss, names, start_s, lost_updates) for loss in course.losses]}
    if not course.recoveries and not course.late:
        return None
    return {
        "deaths": [
            {"name": death.process, "how": death.how, "at_s": round(death.at_s - start_s, 6)} for death in course.deaths
        ],
        "recoveries": [
            {
                "without": [death.process for death in one.deaths],
                "first": one.first,
                "world": one.job.world,
                "scheme": goes_on_as(one.job),
                "behind": [names[node] for node in one.behind],
                "called_s": round(one.called_s - start_s, 6),
                "sent_on_s": round(one.sent_on_s - start_s, 6),
                "recovered_s": _recovered_s(one, samples),
            }
            for one in course.recoveries
        ],
        "phases": [_phase(phase, samples) for phase in course.phases],
    }


def switches(course: Course, samples: pd.DataFrame) -> list[dict[str, Any]] | None:
    """Part of the trial's JSON about phases that a controller began; None if it began none."""
    known = {BEGINNING.kind, CIRCUITS, DEATH}
    if all(phase.cause.kind in known for phase in course.phases):
        return None
    return [_phase(phase, samples) | {"scheme": phase.job.plan.scheme} for phase in course.phases]


def _loss(loss: Loss, names: Sequence[str], start_s: float, lost_updates: LostUpdates) -> dict[str, Any]:
    """Describe a loss. ``hit_s`` is when something was done to it, or, where nothing was, when its first process ended;
    ``recovered_s`` counts from when the others noticed to their next commit."""

    def since(moment_s: float | None) -> float | None:
        return None if moment_s is None else round(moment_s - start_s, 6)

    noticed = loss.noticed
    lost = [*(noticed.updates if noticed else ()), *lost_updates.get(loss.node, ())]
    recovered_s = noticed.recovered_s if noticed else None
    return {
        "node": names[loss.node],
        "processes": sorted(loss.processes),
        "roles": list(loss.roles),
        "how": _how(loss, names),
        "hit_s": since(loss.ended_s if loss.hit_s is None else loss.hit_s),
        "noticed_s": since(noticed.at_s) if noticed else None,
        "recovered_s": None if recovered_s is None else round(recovered_s, 6),
        "lost_updates": [list(one) for one in lost],
    }


def _how(loss: Loss, names: Sequence[str]) -> str:
    told = [f"{process} {how}" for process, how in sorted(loss.processes.items())]
    return ", ".join(told) or f"{names[loss.node]} was lost to the others"


def _recovered_s(one: Recovery, samples: pd.DataFrame) -> float | None:
    ends = samples.loc[samples["iteration"] == one.first, "end_s"]
    if ends.empty:
        return None
    return round(float(ends.max()) - min([one.called_s, *(death.at_s for death in one.deaths)]), 6)


def _phase(phase: Phase, samples: pd.DataFrame) -> dict[str, Any]:
    """Describe a phase, with its GST and throughput; the first iterations of a trial, its warm-up, are left out of
    GST."""
    rows = samples[samples["iteration"].between(phase.first, phase.stop - 1)]
    gst = metrics.gst_s(rows, skip=max(0, min(phase.job.work.warmup, phase.stop - 1) - phase.first))
    trained = phase.job.batch * phase.job.world * phase.iterations
    return {
        "first": phase.first,
        "stop": phase.stop,
        "world": phase.job.world,
        "scheme": goes_on_as(phase.job),
        "cause": phase.cause.kind,
        "why": phase.cause.what,
        "gst_median_s": float(gst.median()),
        "gst_theory_s": phase.job.gst_theory_s,
        "throughput_sps": metrics.throughput_sps(rows, trained),
    }


def who(deaths: Sequence[Death]) -> str:
    """Say who died, and how."""
    return ", ".join(f"{death.process} {death.how}" for death in deaths)
