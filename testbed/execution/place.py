"""Places: a :class:`Place` says which networks it can hold, runs a trial and says what it saw. A lab is one
(:class:`InLab`)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from testbed.execution import stage
from testbed.execution.observed import Observed
from testbed.execution.observing import observe
from testbed.execution.so_far import Tick
from testbed.lab.base import Lab
from testbed.lab.limits import HTB, Limits
from testbed.trial.files import Files
from testbed.trial.model import Trial


@runtime_checkable
class Place(Protocol):
    """Where trials run, one at a time: a lab with processes and a kernel, or a program that plays them."""

    @property
    def limits(self) -> Limits:
        """The networks that it can hold."""

    def require(self, trial: Trial) -> None:
        """Return only if the place can run such a trial, as far as that is known before, on a network within its
        limits.

        Raises:
            SpecError: it cannot run such a trial.
            MissingToolError: it lacks a program or a kernel module, which is named.
        """

    def run(self, trial: Trial, files: Files, congestion_control: str, tick: Tick) -> Observed:
        """Run a trial, and call ``tick`` as its first worker gets on.

        Args:
            files: where processes may read and write meanwhile. Logs stay.

        Raises:
            TrialError: the trial failed. The caller closes the place then.
        """

    def close(self) -> None:
        """End the place and everything in it."""


class InLab:
    """Lab as a place: it builds the network, and starts processes in it. Its limits are those that it was declared
    with."""

    def __init__(self, lab: Lab, limits: Limits = HTB) -> None:
        self._lab, self.limits = lab, limits

    def require(self, trial: Trial) -> None:
        """Ask the lab whether it can emulate the trial's links."""
        stage.check(trial)
        for settings in trial.network.settings_met:
            self._lab.require(trial.topology, settings)

    def run(self, trial: Trial, files: Files, congestion_control: str, tick: Tick) -> Observed:
        """Show processes the trial's files, and observe it."""
        self._lab.share(files.work, [trial.network.folder] if trial.spec.workload.program else [])
        return observe(trial, self._lab, files, congestion_control, tick)

    def close(self) -> None:
        """End the lab."""
        self._lab.close()


def place_of(opened: Lab | Place, limits: Limits = HTB) -> Place:
    """Return the place that was opened, or the lab that was opened as a place with these limits."""
    return opened if isinstance(opened, Place) else InLab(opened, limits)
