"""``pace: fit``: the pace that workers of a training keep on this machine.

With a pace, workers that share cores finish computing together, as on machines of their own, provided that the cores
compute all their gradients within it. How long that takes differs from machine to machine, so a written pace is either
too short for some or longer than need be. The processor time of a gradient is measured once and kept in the user's
cache, beside this machine's capacity. The pace is the time in which the cores compute the gradients of all workers, and
as much again. It is rounded up coarsely, so that machines of about the same speed have the same.

All arms have the same pace: that of the arm with most workers. The run directory keeps it, and a run that goes on takes
it from there. Machines of a lab's own are taken for no slower than this one: they keep the pace that it would keep with
all workers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version

from testbed.base.errors import UsageError
from testbed.capacity import cache
from testbed.experiment.expand import first_trials
from testbed.machine.cgroups import limits
from testbed.spec import Source
from testbed.trial.job import Job
from testbed.workloads.job import Training
from testbed.workloads.learning.compute import REST_S
from testbed.workloads.learning.gradient_time import gradient_times_s
from testbed.workloads.own.prepared import Prepared

ROOM = 2.0
"""Ratio of the pace to the time that the gradients of all workers take: a worker that is alone has the caches and the
memory to itself, and other programs need some of the cores, too."""
STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
"""Numbers to which paces are rounded in each power of ten."""


def fit(source: Source, cores: float | None = None, *, part: bool = False) -> Source:
    """Replace ``fit`` in ``source`` by the paces that it stands for; leave a source as it is that does not ask for
    them.

    Args:
        cores: how many this machine has to use; None looks.
        part: whether only a part of the experiment runs here.

    Raises:
        SpecError: the experiment cannot be.
        UsageError: only a part runs here.
        OwnError: the user's model cannot be measured.
        OutputError, DiskFullError: what was measured cannot be kept.
    """
    if not source.wants_pace:
        return source
    if part:
        raise UsageError(
            "--part: each machine would fit another pace, and their parts would be of different experiments",
            fix="give times in place of pace: fit",
        )
    trials = first_trials(replace(source, wants_pace=False))
    times_s = _times_s([trial.jobs[0] for trial in trials])
    cores = limits().cores if cores is None else cores
    paces_s: dict[int, float] = {}
    for trial in trials:
        job, workers = trial.jobs[0], sum(each.world for each in trial.jobs)
        paces_s[job.batch] = max(paces_s.get(job.batch, 0.0), pace_s(times_s[_name(job)], workers, cores))
    return source.paced(dict(sorted(paces_s.items())))


def pace_s(gradient_s: float, workers: int, cores: float) -> float:
    """Compute the pace (s) that so many workers keep on so many cores if a gradient takes ``gradient_s`` of processor
    time."""
    at_once = max(1.0, workers / cores)
    return rounded_up(ROOM * gradient_s * at_once + REST_S)


def rounded_up(value_s: float) -> float:
    """Find the least of :data:`STEPS`, times a power of ten, that is not less."""
    power = 10.0 ** math.floor(math.log10(value_s))
    return round(next(step for step in STEPS if value_s <= step * power * (1 + 1e-9)) * power, 9)


def _times_s(jobs: Iterable[Job]) -> dict[str, float]:
    """Processor time of a gradient of each job (s), by name: what is known of this machine, else measured, and kept.

    Raises:
        OwnError, OutputError, DiskFullError: as :func:`fit`.
    """
    known = cache.gradient_times_s()
    lacking = {name: job for job in jobs if (name := _name(job)) not in known}
    by_own: dict[Prepared | None, dict[str, Training]] = {}
    for name, job in lacking.items():
        by_own.setdefault(job.own, {})[name] = _training(job)
    for own, trainings in by_own.items():
        measured = zip(trainings, gradient_times_s(list(trainings.values()), own), strict=True)
        known = cache.keep_gradient_times_s(dict(measured))
    return known


def _training(job: Job) -> Training:
    assert isinstance(job.training, Training)  # fit stands for the paces of trainings alone
    return job.training


def _name(job: Job) -> str:
    """Name that tells the time of a gradient from others: model, data, batch, and PyTorch's version."""
    training = _training(job)
    digest = f" {job.own.digest}" if job.own else ""
    return f"{training.model} {training.dataset} batch {training.batch} torch {version('torch')}{digest}"
