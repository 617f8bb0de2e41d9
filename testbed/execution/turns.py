"""Turns of jobs that share a network as a state machine: events in, instructions out.

It touches no lab and reads no clock: :class:`testbed.execution.starting.Starting` makes the events and carries
instructions out. The state can be pickled between any two events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
