"""Runners: a :class:`Runner` runs the trials that an experiment hands to it. :class:`Here` is the one that testbed has.

A runner may run trials anywhere and several at a time: a :class:`testbed.trial.model.Trial` and an
:class:`testbed.execution.execute.Outcome` can be pickled.

A run ends before its next trial if there is a file for that in its directory, for which it looks between trials:
``touch RUN/stop``. The run removes the file when it ends; ``--resume`` removes one that is left.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from testbed.base.errors import OutputError
from testbed.evidence.referee import Referee
from testbed.execution.execute import Outcome, execute
from testbed.execution.place import Place, place_of
from testbed.execution.so_far import SoFar
from testbed.experiment import provenance
from testbed.files.writing import named_errors, opened_folder, write_bytes
from testbed.lab.base import Lab
from testbed.lab.limits import HTB, Limits
from testbed.machine.calm import Lookout
from testbed.run_directory.access import is_idle
from testbed.run_directory.layout import STOP
from testbed.trial.model import Trial


class Stopped(KeyboardInterrupt):
    """The run ends before its next trial, as with Ctrl-C between two trials."""


def ask_to_stop(run: Path) -> None:
    """Have the run that writes into a directory of ours end before its next trial.

    Raises:
        OutputError: the directory is another user's, no run goes on there, or it cannot be written.
    """
    with named_errors(run), opened_folder(run) as folder:
        owner = os.fstat(folder).st_uid
        if owner != os.geteuid():
            raise OutputError(
                f"{run}: belongs to another user (uid {owner}), and only its owner can stop the run",
                fix="call testbed watch as that user",
            )
        if is_idle(run):
            raise OutputError(f"{run}: no run goes on there", fix=f"testbed run --resume {run} goes on with it")
        write_bytes(run / STOP, b"", folder=folder)


class Listener(Protocol):
    """The experiment, as a runner tells it how its trials go."""

    def waiting(self, what: str) -> None:
        """The next trial has to wait for something."""

    def started(self, trial: Trial) -> None:
        """A trial is about to start. It must not, if this raises an error."""

    def advanced(self, iterations: int, so_far: SoFar | None = None) -> None:
        """The first worker of a trial has done so many iterations."""


class Checker(Protocol):
    """Knows which trials can run somewhere."""

    def require(self, trial: Trial) -> None:
        """Return only if such a trial can run here, as far as that is known before.

        Raises:
            TestbedError: it cannot.
        """

    def close(self) -> None:
        """End what the runner has started."""


@runtime_checkable
class Runner(Checker, Protocol):
    """Runs trials. An experiment opens its runner before it has a directory, and closes it in the end."""

    def run(self, trials: Iterable[Trial], folder: Path, listener: Listener) -> Iterator[Outcome]:
        """Run trials, and yield the outcome of each as soon as it has one, in any order.

        A trial that is taken from ``trials`` has to be run. So a runner takes the next one when it has room for it.
        Logs go to ``folder/logs``.

        Raises:
            TestbedError: as :func:`testbed.execution.execute.execute`; or the next of ``trials`` or the ``listener``
                raises it. A runner lets it through.
        """


class Here:
    """Runs one trial after another on this machine, in a place that they share, such as a lab. Before each it waits for
    a calm moment, for as long as the spec allows. A trial that fails closes the place, so the next one gets another."""

    def __init__(self, open_place: Callable[[], Lab | Place], limits: Limits = HTB) -> None:
        """Open it; ``limits`` are those of a lab, and a place says its own.

        Raises:
            TestbedError: no place can be had.
        """
        self._open_place: Callable[[], Place] = lambda: place_of(open_place(), limits)
        self._place = self._open_place()
        self._is_spent = False
        self._referee = Referee()
        self._lookout: Lookout | None = None

    def require(self, trial: Trial) -> None:
        """Ask the place, and hold the trial's network against its limits."""
        self._place.limits.check(trial.topology)
        self._place.require(trial)

    def run(self, trials: Iterable[Trial], folder: Path, listener: Listener) -> Iterator[Outcome]:
        """Run each trial when the machine is calm, and yield its outcome before the next one starts."""
        for trial in trials:
            if self._is_spent:
                self._place, self._is_spent = self._open_place(), False
            if self._lookout is None:
                self._lookout = Lookout(trial.spec.quiet_s if trial.spec.place.is_here else 0.0)
                self._lookout.begin()
            waited = self._lookout.wait(listener.waiting)
            listener.started(trial)
            control = provenance.congestion_control(trial.spec)
            outcome = execute(trial, self._place, self._referee, folder, control, listener.advanced)
            self._lookout.begin()
            self._is_spent = outcome.record["status"] == "failed"
            yield replace(outcome, record=outcome.record | {"waited": waited})

    def close(self) -> None:
        """End the place and the referee."""
        try:
            self._place.close()
        finally:
            self._referee.close()
