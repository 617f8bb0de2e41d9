"""``scale: fit``, the least scale at which this machine carries every arm of an experiment; and ``pace: fit``, the pace
that workers of a training keep on it. Both are found once, when a run begins. The run directory keeps them, and a run
that goes on takes them from there.

A larger scale makes gradients and rates smaller alike, so each trial asks for less and takes as long. It has an end:
layers lose their last float, and messages become so small that headers, not gradients, fill the links. There ``fit`` is
refused, for the numbers would be of something else.

With a pace, workers that share cores finish computing together, as on machines of their own, provided that the cores
compute all their gradients within it. How long that takes differs from machine to machine, so a written pace is either
too short for some or longer than need be. The processor time of a gradient is measured once and kept in the user's
cache, beside this machine's capacity. The pace is the time in which the cores compute the gradients of all workers, and
as much again. It is rounded up coarsely, so that machines of about the same speed have the same. All arms have the same
pace: that of the arm with most workers. Machines of a lab's own are taken for no slower than this one: they keep the
pace that it would keep with all workers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version

from testbed.base.errors import SpecError, UsageError
from testbed.capacity import cache
from testbed.capacity.advice import MEASURE, round_up
from testbed.capacity.cache import Known, known
from testbed.capacity.model import Capacity, chunks_of, load_of, not_known
from testbed.experiment.expand import first_trials, gradient_of
from testbed.machine.cgroups import limits
from testbed.spec import Source
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.workloads.job import Training
from testbed.workloads.learning.compute import REST_S
from testbed.workloads.learning.gradient_time import gradient_times_s
from testbed.workloads.own.prepared import Prepared

LEAST_MESSAGE_BYTES = 1448
"""Bytes of a chunk on average: a full packet. With less, packets are not full, and the kernel's bytes are not the
forest's."""
FIRST_BPS = 1_000_000_000
"""Rate of links where the search begins (bit/s)."""
TURNS, CLOSE = 8, 0.02
"""The most turns of the search, and the share to which it finds the scale. A trial asks for about as much less as the
scale is larger, so two or three turns do."""
FIX = "take slower links (links.rate), fewer hosts, or a machine with more cores; or give a number"
LARGEST = 1e6
"""The largest scale that there may be, see :class:`testbed.spec.workload.profile.Profile`."""
ROOM = 1.1
"""Ratio of what the machine must carry to each trial: what is measured again on another day is not the same."""


def fit(source: Source, of: Known | None = None, *, part: bool = False) -> Source:
    """Replace ``fit`` in ``source`` by the scale that it stands for; leave a source as it is that does not ask for
    that.

    Args:
        of: what is known of this machine; None looks.
        part: whether only a part of the experiment runs here.

    Raises:
        SpecError: nothing was measured here, nothing can be predicted of the trials, or no scale fits.
        UsageError: only a part runs here.
    """
    if not source.wants_fit:
        return source
    if part:
        raise UsageError(
            "--part: each machine would fit another scale, and their parts would be of different experiments",
            fix="give a number in place of scale: fit",
        )
    found = of or known()
    if found.capacity is None:
        why = f"{source.name}: workload.scale: fit needs to know what this machine carries"
        raise SpecError(f"{why}{f', and {found.trouble}' if found.trouble else ''}", fix=f"{MEASURE}, or give a number")
    return source.scaled(_found(source, found.capacity, 1.0))


def enlarged(source: Source, of: Known) -> Source:
    """Keep the scale of ``source`` as it is written, where this machine carries that or only plays it, or nothing is
    known of the machine or predicted of the trials; else take a larger one that it carries.

    Raises:
        SpecError: no scale fits.
    """
    work = source.spec.workload
    if of.capacity is None or not work.takes_scale or source.spec.place.plays:
        return source
    rooms = _rooms(first_trials(source), of.capacity)
    if not rooms or min(rooms.values()) >= 1:
        return source
    return source.scaled(_found(source, of.capacity, work.scale))


def _found(source: Source, capacity: Capacity, at_least: float) -> float:
    """
    Raises:
        SpecError: there is none.
    """
    fastest_bps = max(rate_bps for cell in source.grid.cells for rate_bps in cell.spec.rates_bps(cell.arm).values())
    least = max(at_least, fastest_bps / source.spec.place.limits.fastest_bps)
    scale = max(least, fastest_bps / FIRST_BPS)
    for _ in range(TURNS):
        trials = _at(source, scale)
        wanted = min(LARGEST, max(least, scale / (_room(trials, capacity) / ROOM)))
        if scale * (1 - CLOSE) <= wanted <= scale:
            break
        scale = wanted
    scale = round_up(scale)
    _check(source, _at(source, scale), scale)
    return scale


def _at(source: Source, scale: float) -> list[Trial]:
    """List the experiment's cells at a scale.

    Raises:
        SpecError: they cannot be; says which scale that is.
    """
    try:
        return first_trials(source.scaled(scale))
    except SpecError as error:
        problem = f"{source.name}: workload.scale: fit: no scale is left that this machine carries"
        raise SpecError(f"{problem}; at {scale:.3g}: {error.problem}", fix=FIX) from None


def _room(trials: Sequence[Trial], capacity: Capacity) -> float:
    """Room for the trial that asks for most.

    Raises:
        SpecError: nothing is predicted of any, or one has more processes than this machine carries.
    """
    rooms = _rooms(trials, capacity)
    if not rooms:
        why = next(filter(None, map(not_known, trials)), "nothing is sent")
        raise SpecError(f"workload.scale: fit: {why}, so no scale follows from that", fix="give a number")
    tightest = min(rooms, key=rooms.__getitem__)
    if not rooms[tightest]:
        raise SpecError(f"{tightest} has more processes than this machine carries at any scale", fix="take fewer hosts")
    return rooms[tightest]


def _rooms(trials: Sequence[Trial], capacity: Capacity) -> dict[str, float]:
    """Room for each trial of which something is predicted, by id."""
    return {trial.id: capacity.room(load) for trial in trials if (load := load_of(trial)) is not None}


def _check(source: Source, trials: Sequence[Trial], scale: float) -> None:
    """
    Raises:
        SpecError: so little is left of gradients that the trials would be others.
    """
    for trial in trials:
        if trial.is_shared:
            raise SpecError(f"{trial.label} has several jobs, which have no scale together", fix="give a number")
        work = trial.job.work
        whole = gradient_of(work.model_copy(update={"scale": 1.0}))
        lost = len(whole.buckets) - len(trial.job.gradient.buckets)
        message_bytes = trial.job.cost.wire_bytes / chunks_of(trial.job)
        if lost:
            what = f"{lost} of {len(whole.buckets)} layers that leave by themselves have nothing left"
        elif message_bytes < LEAST_MESSAGE_BYTES:
            what = f"a chunk of {trial.label} is {message_bytes:.0f} B on average, less than a packet"
        else:
            continue
        raise SpecError(
            f"{source.name}: workload.scale: fit: this machine carries it from a scale of {scale:g} on, where {what}",
            fix=FIX,
        )


ROOM_OF_PACE = 2.0
"""Ratio of the pace to the time that the gradients of all workers take: a worker that is alone has the caches and the
memory to itself, and other programs need some of the cores, too."""
STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
"""Numbers to which paces are rounded in each power of ten."""


def fit_pace(source: Source, cores: float | None = None, *, part: bool = False) -> Source:
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
    return rounded_up(ROOM_OF_PACE * gradient_s * at_once + REST_S)


def rounded_up(value_s: float) -> float:
    """Find the least of :data:`STEPS`, times a power of ten, that is not less."""
    power = 10.0 ** math.floor(math.log10(value_s))
    return round(next(step for step in STEPS if value_s <= step * power * (1 + 1e-9)) * power, 9)


def _times_s(jobs: Iterable[Job]) -> dict[str, float]:
    """Processor time of a gradient of each job (s), by name: what is known of this machine, else measured, and kept.

    Raises:
        OwnError, OutputError, DiskFullError: as :func:`fit_pace`.
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
