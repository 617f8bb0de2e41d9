"""Evidence that a place gathers of a trial: all that its record, its tables and its verdict are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from testbed.base.errors import TrialError, WorkerError
from testbed.control.conductor import Record
from testbed.evidence.calibration import Calibrated
from testbed.evidence.spot_checks import Readings
from testbed.execution.starting import Began
from testbed.lab.measurements import Counters, Queues
from testbed.lab.programs import Exit
from testbed.machine.monitor import CpuLog
from testbed.machine.processes import ProcessLog
from testbed.perturb.circuits import History
from testbed.recovery.deaths import Course
from testbed.trial.job import Job
from testbed.trial.model import Trial
from testbed.trial.phases import Change

Lines = list[dict[str, Any]]


@dataclass
class Observed:
    """Evidence that a trial left behind.

    Attributes:
        trial: the trial as it ran, with what its hosts found.
        lines: by process, the lines that it wrote; none of a process that tells nothing.
        exits: exits of processes, in the order in which they ended.
        counters: what each directed link carried meanwhile.
        cpu, processes: how busy the cores were, and whether processes stood still.
        lab: the network as it was read back, and how many workers trained on which device.
        idle: round trips and rates of the idle network, measured before the trial.
        before: lines of bursts that other processes sent before, where the trial's own did not.
        differs: how the kernel's settings differed from what was asked for afterwards.
        readings: what was read of these settings while the trial ran.
        events: what was done to the trial on purpose, and when its network failed.
        background: the bytes that each background flow sent.
        courses: by job, who died in it, and by which plans it was done.
        changes: by job, the changes of its plan that controllers told of.
        tuning: by job, the steps of a controller that tuned its plan.
        circuits: states of the circuits that the trial met.
        queues: bytes that waited at egresses; None where the place cannot tell.
        began, dark_s, failed: of jobs that share the network: when each began, for how long its hosts waited for its
            circuits, and why those failed that did.
        not_kept: what is to be told of files that a program's ranks wrote.
        is_played: whether nothing was computed, so that there are neither losses nor sums nor weights to check.
        is_simulated: whether time was simulated, so that numbers are as good as a model is.
    """

    trial: Trial
    counters: list[Counters]
    cpu: CpuLog
    lab: dict[str, Any]
    differs: str | None
    readings: Readings
    events: list[Record]
    background: list[int]
    circuits: History
    queues: Queues | None = None
    processes: ProcessLog = field(default_factory=ProcessLog)
    idle: Calibrated = field(default_factory=lambda: Calibrated([], []))
    before: Lines = field(default_factory=list)
    lines: dict[str, Lines] = field(default_factory=dict)
    exits: Sequence[Exit] = ()
    courses: Mapping[str, Course] = field(default_factory=dict)
    changes: Mapping[str, Sequence[Change]] = field(default_factory=dict)
    tuning: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    began: Mapping[str, Began] = field(default_factory=dict)
    dark_s: Mapping[str, float] = field(default_factory=dict)
    failed: Mapping[str, WorkerError] = field(default_factory=dict)
    not_kept: Sequence[str] = ()
    is_played: bool = False
    is_simulated: bool = False

    def of(self, kind: str, job: Job | None = None) -> Lines:
        """Return the lines of one kind, each with its process's ``name``; of a job's processes, or of all."""
        return [
            {**line, "name": name}
            for name, lines in self.lines.items()
            if job is None or name in job.processes
            for line in lines
            if line["kind"] == kind
        ]

    def lasted(self, job: Job) -> tuple[float, float]:
        """Return when (s) the first of a job's workers started, and when the last one ended."""
        exits = [exit for exit in self.exits if exit.process in job.workers]
        return min(exit.started_s for exit in exits), max(exit.ended_s for exit in exits)


@dataclass
class Outcome:
    """Record and tables of a trial or a job that has ended.

    Attributes:
        record: the trial's JSON, or the job's entry among its ``jobs``.
        samples: rows of each iteration; None if no process told of any.
        lab: the network as it was read back.
        queues: the queues at the egresses.
        collectives: each collective of each rank of a script.
        transfers: transfers that were made, if its kind plans them.
        jobs: of jobs that share a network, the samples of each, by its name.
        error: the reason why it failed; None if it did not.
    """

    record: dict[str, Any]
    samples: pd.DataFrame | None = None
    lab: dict[str, Any] = field(default_factory=dict)
    queues: pd.DataFrame | None = None
    collectives: pd.DataFrame | None = None
    transfers: pd.DataFrame | None = None
    jobs: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    error: TrialError | None = None
