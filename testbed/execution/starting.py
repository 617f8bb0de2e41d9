"""Starts of jobs that share a trial's network: as they are submitted, and once their hosts are free.

:class:`Turns` is a state machine: events in, instructions out. It touches no lab and reads no clock; :class:`Starting`
makes the events and carries instructions out. Its state can be pickled between any two events.
"""

from __future__ import annotations

import math
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from testbed.base.errors import WorkerError
from testbed.control import endings
from testbed.control.feed import Feed
from testbed.execution import supervise
from testbed.execution.switching import SOON_S, Switching
from testbed.lab.base import Lab
from testbed.lab.programs import Exit, Launch
from testbed.trial.files import Files
from testbed.trial.job import Job


class Looked(NamedTuple):
    """Seconds since the trial's beginning, and the processes that run."""

    since_s: float
    running: frozenset[str]


class Lit(NamedTuple):
    """The circuits of a job whose hosts are free carry light."""

    job: str


class LookAhead(NamedTuple):
    """Patch a job's circuits while others run, where panels can."""

    job: Job


class Light(NamedTuple):
    """Give a job whose hosts are free its circuits."""

    job: Job


class Start(NamedTuple):
    """Start a job's processes."""

    job: Job


Event = Looked | Lit
Instruction = LookAhead | Light | Start


class Turns:
    """Jobs that wait, and jobs that run. A job has ended when the processes have that it does not share.

    Attributes:
        waiting: jobs that have not been started, in the order in which they are submitted.
        running: jobs that were started and have not ended, by name.
    """

    def __init__(self, jobs: Sequence[Job], own: Mapping[str, Sequence[str]]) -> None:
        """Have all jobs wait that have a slot. ``own`` are the processes that each does not share, by its name."""
        self.waiting = [job for job in jobs if job.slot]
        self.running: dict[str, Job] = {}
        self._own = own
        self._started: set[str] = set()

    def handle(self, event: Event) -> list[Instruction]:
        """Return what is to be done now; a job's circuits come before other jobs are started."""
        if isinstance(event, Lit):
            return [self._start(job) for job in list(self.waiting) if job.name == event.job]
        self.running = {
            name: job for name, job in self.running.items() if not event.running.isdisjoint(self._own[name])
        }
        with_circuits = [job for job in self.waiting if job.own_slot.circuits is not None]
        told: list[Instruction] = [LookAhead(job) for job in with_circuits if self._started >= set(job.own_slot.after)]
        there = {job.name for job in self.waiting} | self.running.keys()
        due = [
            job
            for job in self.waiting
            if job.own_slot.start_s <= event.since_s and there.isdisjoint(job.own_slot.after)
        ]
        told += [Light(job) for job in due if job.own_slot.circuits is not None]
        return [*told, *(self._start(job) for job in due if job.own_slot.circuits is None)]

    def _start(self, job: Job) -> Start:
        self.waiting.remove(job)
        self.running[job.name] = job
        self._started.add(job.name)
        return Start(job)


@dataclass(frozen=True)
class Began:
    """Moments at which a job was submitted, its hosts were free and its circuits carried light, and the start of its
    processes began, in seconds after the trial's beginning; and that beginning, by the clock of samples."""

    submitted_s: float
    ready_s: float
    started_s: float
    origin_s: float


class Starting:
    """Controller, in the thread that waits for processes, that starts those of each job. A job of which a process fails
    has failed; its other processes are ended, and the other jobs go on."""

    is_urgent = False

    def __init__(
        self,
        jobs: Sequence[Job],
        launches: Sequence[Launch],
        lab: Lab,
        files: Files,
        switching: Switching | None = None,
    ) -> None:
        """Start nothing yet. ``switching`` gives jobs their circuits, where some have circuits of their own. A job that
        has no slot is alone: it begins at once, and ends the trial if it fails."""
        self._lab, self._files, self._switching = lab, files, switching
        self._of = {job.name: [process.name for process in job.members.values()] for job in jobs}
        jobs_of = Counter(process for processes in self._of.values() for process in processes)
        self._shared = {process for process, count in jobs_of.items() if count > 1}
        self._served = {
            job.name: [part for part, process in job.members.items() if process.name in self._shared] for job in jobs
        }
        own = {
            name: [process for process in processes if process not in self._shared]
            for name, processes in self._of.items()
        }
        self._turns, self._own = Turns(jobs, own), own
        waiting = {process for job in self._turns.waiting for process in self._of[job.name]}
        self._at_once = [launch for launch in launches if launch.process not in waiting]
        self._launches = {
            job.name: [launch for launch in launches if launch.process in self._of[job.name]] for job in jobs
        }
        self._begun_s: float | None = None
        self.began: dict[str, Began] = {}
        self.failed: dict[str, WorkerError] = {}
        self._exits: dict[str, list[Exit]] = {}
        self._failing_s: dict[str, float] = {}

    def begin(self, feed: Feed) -> None:
        """Start a job that is alone; tell the ``feed`` of the others, of which none runs yet."""
        feed.postpone(list(dict.fromkeys(process for job in self._turns.waiting for process in self._of[job.name])))
        if self._at_once:
            self._lab.launch(self._at_once)

    def look(self, feed: Feed) -> float:
        """Start jobs that are due; end those that have failed."""
        now_s = time.monotonic()
        if self._begun_s is None:
            self._begun_s = now_s
        self._end_failed(feed)
        told = self._turns.handle(Looked(now_s - self._begun_s, frozenset(feed.running)))
        starts = [one.job for one in told if isinstance(one, Start)]
        for one in told:
            if isinstance(one, LookAhead) and self._switching:
                self._switching.look_ahead(one.job)
            elif isinstance(one, Light) and (self._switching is None or self._switching.is_lit(one.job)):
                starts += [lit.job for lit in self._turns.handle(Lit(one.job.name)) if isinstance(lit, Start)]
        for job in starts:  # circuits move while processes are started
            self._start(job, feed)
        waiting = self._turns.waiting
        next_s = min((job.own_slot.start_s for job in waiting), default=math.inf)
        # Those who wait for hosts are looked at anyway.
        waits_s = max(0.0, self._begun_s + next_s - now_s) or math.inf
        return min(waits_s, SOON_S) if any(job.own_slot.circuits for job in waiting) else waits_s

    def _start(self, job: Job, feed: Feed) -> None:
        assert self._begun_s is not None
        # The start of many processes takes a while, of this job or of another one: that is no waiting for hosts.
        started_s = time.monotonic() - self._begun_s
        ready_s = min(started_s, self._ready_s(job, feed))
        self.began[job.name] = Began(job.own_slot.start_s, ready_s, started_s, self._begun_s)
        due = {process for process in self._of[job.name] if process in feed.postponed}  # without what others share
        self._lab.launch([launch for launch in self._launches[job.name] if launch.process in due])
        feed.started([process for process in self._of[job.name] if process in due])

    def _ready_s(self, job: Job, feed: Feed) -> float:
        """Return when a job that is due had been submitted, had its hosts and its circuits, in seconds after the
        trial's beginning."""
        assert self._begun_s is not None
        processes = [launch.process for name in job.own_slot.after for launch in self._launches[name]]
        moments_s = [feed.exited_s[process] for process in processes if process in feed.exited_s]
        if self._switching and job.name in self._switching.lit_s:
            moments_s.append(self._switching.lit_s[job.name])
        return max(job.own_slot.start_s, *(moment_s - self._begun_s for moment_s in moments_s), 0.0)

    def _end_failed(self, feed: Feed) -> None:
        """End jobs of which a process has failed. Others of a job may fail as well for a moment: then all its exits
        tell which was first."""
        now_s, exits = time.monotonic(), feed.failed
        for name in {**self._turns.running, **self.failed}:
            failed = [exit for exit in exits if exit.process in self._of[name]]
            if failed:
                self._exits.setdefault(name, []).extend(failed)
                self._failing_s.setdefault(name, now_s)
                feed.forgive(failed)
            if name not in self._failing_s or name in self.failed:
                continue
            left = [process for process in feed.running if process in self._own[name]]
            if not left or now_s - self._failing_s[name] > supervise.SETTLE_S:
                self.failed[name] = self._died(name, left)
                for process in left:
                    self._lab.signal(process, signal.SIGKILL)

    def _died(self, name: str, left: Sequence[str]) -> WorkerError:
        """Make the error of a job. If the job's processes only lost a process that other jobs share and that goes on,
        the error is the one that this process's part in the job reported."""
        error = endings.died(self._exits[name], left, self._files)
        assert error.process is not None
        if error.signalled or not endings.last_words(self._files.samples(error.process)).get("elsewhere"):
            return error
        for part in self._served[name]:
            said = endings.last_words(self._files.samples(part))
            if said and not said["elsewhere"]:
                cause = WorkerError(f"{name}: {said['error']}", fix=said["fix"])
                cause.process, cause.at_s = error.process, error.at_s
                return cause
        return error


def spans(began: Began) -> dict[str, float]:
    """Return what a job's record has of its beginning (s after the trial's); waiting is that for hosts and circuits."""
    return {
        "submitted_s": round(began.submitted_s, 6),
        "started_s": round(began.started_s, 6),
        "queued_s": round(began.ready_s - began.submitted_s, 6),
    }
