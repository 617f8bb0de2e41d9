"""A trial in a lab: build the network, start the processes, perturb and watch until they have ended, read what they
wrote, and take the network down."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from testbed.base.errors import TrialError
from testbed.control.conductor import Conductor, Record, blamed_for_job
from testbed.control.feed import Feed
from testbed.control.patching import Patching
from testbed.control.reconfiguring import Reconfiguring
from testbed.control.registry import Beside, Context, begun
from testbed.evidence import calibration
from testbed.evidence.links import counters_between
from testbed.evidence.spot_checks import Readings, SpotChecks
from testbed.execution import probing, stage, supervise
from testbed.execution.observed import Observed
from testbed.execution.probing import MARK, PROBES, Means
from testbed.execution.processes import processes_of
from testbed.execution.so_far import Tick
from testbed.execution.starting import Starting
from testbed.execution.switching import Switching
from testbed.execution.working_files import most_said_bytes
from testbed.files.writing import named_errors
from testbed.lab.base import Lab
from testbed.lab.measurements import Interruption
from testbed.recovery.deaths import switched
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.model import Trial
from testbed.trial.network import link_settings
from testbed.trial.phases import Change


def observe(trial: Trial, lab: Lab, files: Files, congestion_control: str, tick: Tick) -> Observed:
    """Build a trial's network in the lab, measure its links, find what its spec leaves open, write job files, run the
    trial and take the network down; a lab in which that failed is for the caller to close.

    Raises:
        TrialError: the lab is not as asked, a process failed, or nothing happened for too long.
    """
    settings = link_settings(trial.spec, congestion_control)
    pairs, moves = job_files.host_pairs(trial), job_files.moves_for_jobs(trial)
    lab.up(trial.topology, settings, job_files.joined(trial.topology, pairs) if moves else pairs)
    with named_errors(files.work):
        probers = probing.probers(trial, files, congestion_control) if trial.is_probed_before else []
    idle = calibration.measure(trial.topology, lab, settings)
    # Now, for the trial's processes can write to the same folders.
    before = probing.measured(trial, lab, replace(files, stage=probing.BEFORE), probers)
    means = Means(trial, lab, files, congestion_control, before)
    with _tenants(trial, lab, files):
        trial = stage.decided(trial, lambda probe: PROBES[probe](means))
    with named_errors(files.work):
        processes = processes_of(trial, lab, files, congestion_control)
    switching = Switching(lab, trial.topology, pairs) if moves else None
    starting = Starting(trial.jobs, processes.launches, lab, files, switching)
    feed = Feed(processes.samples, max(map(most_said_bytes, trial.jobs)), [*trial.processes])

    def run(readings: Readings) -> None:
        controllers = [*processes.controllers(feed, readings, tick), starting]
        starting.begin(feed)
        supervise.wait(lab, feed, processes.files, processes.signs, controllers)

    try:
        seen = _watched(trial, lab, files, feed, run, processes.instead)
    except TrialError as error:
        error.found, error.not_kept = trial.found, processes.kept()
        raise
    finally:
        if switching:
            switching.close()
    seen.idle, seen.before, seen.lines, seen.exits = idle, before, processes.lines(), feed.exits
    seen.lab |= processes.described(seen.lines)
    seen.courses = {
        name: switched(course, seen.changes.get(name, ())) for name, course in processes.courses(seen.events).items()
    }
    seen.not_kept = processes.kept()
    seen.began = starting.began
    seen.failed = {name: blamed_for_job(error, seen.events) for name, error in starting.failed.items()}
    if switching:
        seen.events, seen.dark_s = [*seen.events, *switching.records], switching.dark_s
    lab.down()
    return seen


def _watched(
    trial: Trial, lab: Lab, files: Files, feed: Feed, run: Callable[[Readings], None], instead: str
) -> Observed:
    """Carry out what is to happen to a trial while ``run`` starts its processes and waits for their end; return what
    was seen meanwhile. ``run`` is given what is read back of the links, as it grows; ``instead`` ends the fix of an
    error.

    Raises:
        TrialError: as ``run`` does, with what was done to the trial; or a helper or a controller failed.
    """
    before, watched = lab.counters(), lab.watch_queues()
    changes: dict[str, list[Change]] = {}
    tuning: dict[str, list[dict[str, Any]]] = {}
    with (
        Patching(lab, trial.topology) as patching,
        _reconfiguring(trial, lab, files) as reconfiguring,
        Conductor(trial.schedule(), lab, files.logs, patching) as conductor,
        begun(
            [job.kind for job in trial.jobs],
            Context(trial, lab, files, conductor.carry_out, conductor.records, changes, tuning),
        ) as declared,
        Beside(feed, [conductor, patching, *reconfiguring, *declared]),
        lab.monitor() as monitor,
        SpotChecks(lab, trial.jct_theory_s or math.inf) as checks,
    ):
        try:
            run(checks.readings)
        except TrialError as error:
            feed.look()  # the record tells when things happened after the trial began
            conductor.records += _others(lab, patching, reconfiguring)
            goes_on = trial.does_without(conductor.kills)
            told = conductor.blamed(error, begun_s=feed.begun_s, goes_on=goes_on, instead=instead)
            raise told from error
    queues = lab.queues() if watched else None
    background = conductor.finish()
    others = _others(lab, patching, reconfiguring)
    return Observed(
        trial=trial,
        counters=counters_between(before, lab.counters()),
        differs=calibration.differs(lab),
        lab=lab.describe(),
        cpu=monitor.log,
        processes=monitor.processes,
        readings=checks.readings,
        events=sorted([*conductor.records, *others], key=lambda one: one.begun_s or math.inf),
        background=background,
        circuits=reconfiguring[0].history if reconfiguring else patching.history,
        queues=queues,
        changes=changes,
        tuning=tuning,
    )


@contextmanager
def _tenants(trial: Trial, lab: Lab, files: Files) -> Iterator[None]:
    """Have what happens while hosts probe each other, if they do: flows of other tenants come and go.

    Raises:
        TrialError: a helper failed, or an event.
    """
    schedule = trial.schedule(while_probed=True)
    if not trial.findings or not schedule.streams:
        yield
        return
    feed = Feed({})
    feed.begin()
    with Conductor(schedule, lab, files.logs, stage=f"{MARK}-") as conductor, Beside(feed, [conductor]):
        yield
    for record in conductor.records:
        if record.error:
            problem = f"while hosts probed each other: {record.what}: {record.error}"
            raise TrialError(problem, fix="run it again; if it fails again, leave the perturbation out")
    conductor.finish()


def _others(lab: Lab, patching: Patching, reconfiguring: Sequence[Reconfiguring]) -> list[Record]:
    """List the events that the schedule does not have: moves of circuits, and times in which the network failed."""
    moves = [*patching.records, *(record for one in reconfiguring for record in one.records)]
    failures = (
        Record(Interruption.KIND, failure.what, begun_s=failure.begun_s, done_s=failure.done_s)
        for failure in lab.interruptions()
    )
    return [*moves, *failures]


@contextmanager
def _reconfiguring(trial: Trial, lab: Lab, files: Files) -> Iterator[Sequence[Reconfiguring]]:
    """Move circuits within iterations, if that was asked for."""
    asked = next((found for one in trial.network.perturbations if (found := one.reconfiguration)), None)
    if asked is None:
        yield ()
        return
    with named_errors(files.work), Reconfiguring(lab, trial.topology, asked, files.gate) as one:
        yield (one,)
