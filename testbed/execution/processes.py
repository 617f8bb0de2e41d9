"""Processes of a trial's jobs: what differs, for starting them and waiting for them, between ours, which write samples,
and those of a program, of which less is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from testbed.control.conductor import Record
from testbed.control.controller import Controller
from testbed.control.feed import Feed
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
    """What is to be started, and how to follow it."""

    @property
    def files(self) -> Files:
        """Where they read and write."""

    @property
    def launches(self) -> Sequence[Launch]:
        """How the lab is to start them, in this order."""

    @property
    def samples(self) -> Mapping[str, Path | None]:
        """By process, the file that is read while it runs; None if it writes none that can be."""

    @property
    def signs(self) -> Signs:
        """Signs of life."""

    @property
    def instead(self) -> str:
        """What would go on without a node, to end an error's fix with; empty if nothing would, or this does."""

    def controllers(self, feed: Feed, readings: Readings, tick: Tick) -> Sequence[Controller]:
        """What acts on them from the thread that waits for them."""

    def lines(self) -> dict[str, Lines]:
        """By process, what it wrote, once all have ended.

        Raises:
            TrialError: one wrote what none writes.
        """

    def described(self, lines: Mapping[str, Lines]) -> dict[str, Any]:
        """What the description of the lab has of them."""

    def courses(self, events: Sequence[Record]) -> dict[str, Course]:
        """By job, who died in it."""


def processes_of(trial: Trial, lab: Lab, files: Files, congestion_control: str) -> Processes:
    """Write what each process of a trial is told; what is to be started."""
    made = Programs if any(job.workload.program for job in trial.jobs) else Workers
    return made(trial, lab, files, congestion_control)
