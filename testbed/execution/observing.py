"""What is seen of every trial while its processes run, whatever they are: what was done to it, and what the kernel and
the CPUs counted meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from testbed.base.errors import TrialError
from testbed.control.conductor import Conductor, Record
from testbed.control.controller import Beside
from testbed.control.feed import Feed
from testbed.control.patching import Patching
from testbed.control.reconfiguring import Reconfiguring
from testbed.control.registry import Context, begun
from testbed.evidence import calibration
from testbed.evidence.links import counters_between
from testbed.evidence.spot_checks import Readings, SpotChecks
from testbed.execution.room import most_said_bytes
from testbed.files.writing import named_errors
from testbed.lab.base import Lab
from testbed.lab.measurements import Counters, Queues
from testbed.machine.monitor import CpuLog
from testbed.machine.processes import ProcessLog
from testbed.perturb.circuits import History
from testbed.trial.files import Files
from testbed.trial.model import Trial

_T = TypeVar("_T")
ANOTHER = ", or take a scheme that goes on when a node dies, such as rina"


@dataclass(frozen=True)
class Observation:
    """The kernel's counts, the CPUs' log, the lab as read back, how the kernel's settings differed from what was asked
    for after, and what was read of them meanwhile, what was done on purpose, the bytes that each background flow sent,
    the circuits that were met, what waited at egresses (None where the lab cannot tell), and whether processes stood
    still."""

    counters: list[Counters]
    cpu: CpuLog
    lab: dict[str, Any]
    differs: str | None
    readings: Readings
    events: list[Record]
    sent: list[int]
    history: History
    queues: Queues | None = None
    processes: ProcessLog = field(default_factory=ProcessLog)


def observe(
    trial: Trial,
    lab: Lab,
    files: Files,
    work: Callable[[Feed, Readings], _T],
    samples: Mapping[str, Path | None],
) -> tuple[_T, Observation]:
    """What ``work`` returns, which starts a trial's processes and waits for their end; and what was seen meanwhile.
    ``work`` is given what is read back of the links, as it grows.

    Args:
        samples: each process's file, workers first, by rank. Where there are none, ``work`` says when the trial begins.

    Raises:
        TrialError: as ``work`` does, with what was done to the trial; or a helper or a controller failed.
    """
    topology, feed = trial.topology, Feed(samples, max(map(most_said_bytes, trial.jobs)))
    before, watched = lab.counters(), lab.watch_queues()
    with (
        Patching(lab, topology) as patching,
        _reconfiguring(trial, lab, files) as reconfiguring,
        Conductor(trial.schedule(), lab, files.logs, patching) as conductor,
        begun(
            [job.kind for job in trial.jobs], Context(trial, lab, files, conductor.carry_out, conductor.records)
        ) as declared,
        Beside(feed, [conductor, patching, *reconfiguring, *declared]),
        lab.monitor() as monitor,
        SpotChecks(lab, trial.jct_theory_s or math.inf) as checks,
    ):
        try:
            found = work(feed, checks.readings)
        except TrialError as error:
            feed.look()  # the record tells when things happened after the trial began
            conductor.records += _moves(patching, reconfiguring)
            instead = "" if trial.goes_on or not all(job.is_synchronised for job in trial.jobs) else ANOTHER
            goes_on = trial.does_without(conductor.kills)
            told = conductor.blamed(error, begun_s=feed.begun_s, goes_on=goes_on, instead=instead)
            raise told from error
    queues = lab.queues() if watched else None
    sent = conductor.finish()
    moves = _moves(patching, reconfiguring)
    events = sorted([*conductor.records, *moves], key=lambda one: one.begun_s or math.inf)
    history = reconfiguring[0].history if reconfiguring else patching.history
    counted, differs = counters_between(before, lab.counters()), calibration.differs(lab)
    described, readings = lab.describe(), checks.readings
    return found, Observation(
        counted, monitor.log, described, differs, readings, events, sent, history, queues, monitor.processes
    )


def _moves(patching: Patching, reconfiguring: Sequence[Reconfiguring]) -> list[Record]:
    """Of circuits, that the schedule does not have."""
    return [*patching.records, *(record for one in reconfiguring for record in one.records)]


@contextmanager
def _reconfiguring(trial: Trial, lab: Lab, files: Files) -> Iterator[Sequence[Reconfiguring]]:
    """Who moves circuits within iterations, if that was asked for."""
    asked = next((found for one in trial.network.perturbations if (found := one.reconfiguration)), None)
    if asked is None:
        yield ()
        return
    with named_errors(files.work), Reconfiguring(lab, trial.topology, asked, files.gate) as one:
        yield (one,)
