"""Processes of a trial's jobs: what differs, for starting them and waiting for them, between ours, which write samples,
and those of a program, of which less is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from testbed.control.conductor import Record
from testbed.control.feed import Feed
from testbed.control.registry import Controller
from testbed.evidence.spot_checks import Readings
from testbed.execution.observed import Lines
from testbed.execution.programs import Programs
from testbed.execution.so_far import Tick
from testbed.execution.supervise import Signs
from testbed.execution.workers import Workers
from testbed.lab.base import Lab
from testbed.lab.programs import Launch
from testbed.recovery.deaths import Course
from testbed.trial.files import Files
from testbed.trial.model import Trial


class Processes(Protocol):
    """Processes that are to be started, and the means to follow them."""

    @property
    def files(self) -> Files:
        """Files that they read and write."""

    @property
    def launches(self) -> Sequence[Launch]:
        """Launches for the lab, which starts them in this order."""

    @property
    def samples(self) -> Mapping[str, Path | None]:
        """Files that are read while processes run, by process; None for a process that writes none that can be."""

    @property
    def signs(self) -> Signs:
        """Signs of life that they give."""

    @property
    def instead(self) -> str:
        """Words about what would go on without a node, to end an error's fix with; empty if nothing would, or this
        does."""

    def controllers(self, feed: Feed, readings: Readings, tick: Tick) -> Sequence[Controller]:
        """Return what acts on them from the thread that waits for them."""

    def lines(self) -> dict[str, Lines]:
        """Read, by process, the lines that it wrote, once all have ended.

        Raises:
            TrialError: a process wrote something that no process of its kind writes.
        """

    def described(self, lines: Mapping[str, Lines]) -> dict[str, Any]:
        """Return what the description of the lab says of them."""

    def kept(self) -> list[str]:
        """Keep what they wrote and what is to stay, once all have ended or the trial has failed; return what is to be
        told of the rest.

        Raises:
            DiskFullError, OutputError: the run directory cannot be written.
        """

    def courses(self, events: Sequence[Record]) -> dict[str, Course]:
        """Return the course of each job, by its name: who died in it."""


def processes_of(trial: Trial, lab: Lab, files: Files, congestion_control: str) -> Processes:
    """Write the instructions of each process of a trial; return the processes that are to be started."""
    made = Programs if any(job.workload.program for job in trial.jobs) else Workers
    return made(trial, lab, files, congestion_control)
