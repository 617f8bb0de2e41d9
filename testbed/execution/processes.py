"""Processes of a trial's jobs: what differs, for starting them and waiting for them, between ours, which write samples,
and those of a program (:mod:`.programs`), of which less is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.control import endings
from testbed.control.conductor import Record
from testbed.control.feed import Feed
from testbed.control.registry import Controller
from testbed.evidence.spot_checks import Readings
from testbed.execution import supervise
from testbed.execution.observed import Lines
from testbed.execution.programs import Programs
from testbed.execution.so_far import SoFar, Tick
from testbed.execution.working_files import most_said_bytes
from testbed.lab.base import Lab
from testbed.recovery.deaths import Course, undisturbed
from testbed.recovery.failover import Coordinator
from testbed.recovery.losses import Bystander
from testbed.trial import job_files
from testbed.trial.files import Files
from testbed.trial.model import Trial

ANOTHER = ", or take a scheme that goes on when a node dies, such as rina"


class Workers:
    """Processes of ours: workers, and those that only pass chunks on. They write samples while they run.

    Attributes: as of :class:`.Programs`.
    """

    def __init__(self, trial: Trial, lab: Lab, files: Files, congestion_control: str) -> None:
        """Write the processes' job files."""
        needed = any(job.kind.software.needs_agent(job.plan) for job in trial.jobs)
        self._trial, self.files = trial, files
        self.launches = job_files.write(trial, files, congestion_control, lab.agent() if needed else ())
        self.samples = {part: files.samples(part) for job in trial.jobs for part in job.processes}
        timeouts_s = trial.spec.timeout_s, trial.spec.start_timeout_s
        self.signs = supervise.Growth(lab, files, [*self.samples], *timeouts_s)
        self.instead = "" if trial.goes_on else ANOTHER
        self._coordinators = {
            job.name: Coordinator(job, files, lab, congestion_control) for job in trial.jobs if job.goes_on
        }
        self._bystanders = {job.name: Bystander(job, files, lab) for job in trial.jobs if job.survives}

    def controllers(self, feed: Feed, readings: Readings, tick: Tick) -> Sequence[Controller]:
        """Return the progress, and the controllers that let a job go on when nodes die."""
        first = self._trial.jobs[0]
        workers = {name: self.files.samples(name) for name in first.workers} if first.kind.sums_together else {}
        so_far = SoFar(feed, readings, workers, first.work.warmup)
        progress = supervise.Progress(lambda done: tick(done, so_far))
        return [progress, *self._coordinators.values(), *self._bystanders.values()]

    def lines(self) -> dict[str, Lines]:
        """Read the processes' samples."""
        return {
            process: endings.read_checked(self.files.samples(process), most_said_bytes(job), job.kind)
            for job in self._trial.jobs
            for process in job.processes
        }

    def described(self, lines: Mapping[str, Lines]) -> dict[str, Any]:
        """Count the processes that train, by device, and those that move chunks, by what moves them."""
        hello = [line for own in lines.values() for line in own if line["kind"] == "hello"]
        return {f"{name}s": Counter(line[name] for line in hello if line.get(name)) for name in ("device", "mover")}

    def kept(self) -> list[str]:
        """Return nothing: workers' files are read, and what they train is saved by ``checkpoint``."""
        return []

    def courses(self, events: Sequence[Record]) -> dict[str, Course]:
        """Return the course of each job, as the controllers that let jobs go on know it."""
        courses = {job.name: undisturbed(job) for job in self._trial.jobs}
        courses |= {name: one.course for name, one in self._coordinators.items()}
        return courses | {name: one.course(events) for name, one in self._bystanders.items()}


def processes_of(trial: Trial, lab: Lab, files: Files, congestion_control: str) -> Workers | Programs:
    """Write the instructions of each process of a trial; return the processes that are to be started."""
    made = Programs if any(job.workload.program for job in trial.jobs) else Workers
    return made(trial, lab, files, congestion_control)
