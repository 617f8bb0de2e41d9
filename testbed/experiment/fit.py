"""``scale: fit``: the least scale at which this machine carries every arm of an experiment.

A larger scale makes gradients and rates smaller alike, so each trial asks for less and takes as long. It has an end:
layers lose their last float, and messages become so small that headers, not gradients, fill the links. There ``fit`` is
refused, for the numbers would be of something else.

The scale is found once, when a run begins. The run directory keeps it, and a run that goes on takes it from there.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.base.errors import SpecError, UsageError
from testbed.capacity.advice import MEASURE, round_up
from testbed.capacity.cache import Known, known
from testbed.capacity.load import chunks_of, load_of, not_known
from testbed.capacity.model import Capacity
from testbed.experiment.expand import first_trials, gradient_of
from testbed.spec import Source
from testbed.trial.model import Trial

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
