"""A whole experiment: every trial that is not finished yet, one after the other, each kept as soon as it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import environment, results
from testbed.errors import TestbedError
from testbed.execute import execute
from testbed.lab.base import Lab
from testbed.progress import Lines
from testbed.referee import Referee
from testbed.rundir import RunDirectory
from testbed.spec import Source
from testbed.trials import Trial, trials

Announce = Callable[[Sequence[Trial]], Lines]
"""Makes the reporter, once it is known which trials are to run."""


@dataclass(frozen=True)
class Run:
    """What a run left: its directory and the records of its trials in the spec's order."""

    path: Path
    records: list[dict[str, Any]]

    @property
    def failed(self) -> bool:
        return any(record["status"] == "failed" for record in self.records)


class Experiment:
    """An experiment that was checked and has its directory; :meth:`go` runs it."""

    def __init__(self, source: Source, planned: list[Trial], directory: RunDirectory, congestion_control: str) -> None:
        self.source = source
        self.planned = planned
        self.directory = directory
        self.congestion_control = congestion_control
        self.records = directory.finished(planned)

    @classmethod
    def new(cls, source: Source, out: Path | None) -> Experiment:
        """
        Raises:
            TestbedError: the spec makes no sense here, or the directory cannot be used. Nothing was built.
        """
        planned = trials(source)
        congestion_control = environment.congestion_control(source.spec)
        return cls(source, planned, RunDirectory.create(out, source), congestion_control)

    @classmethod
    def resumed(cls, path: Path, source: Source | None) -> Experiment:
        """Go on with the run in ``path``; ``source`` must then give the same trials, None takes the run's own spec.

        Raises:
            TestbedError: this is no run directory, or its finished trials ran with other settings.
        """
        directory = RunDirectory.reopen(path)
        source = source or directory.source()
        return cls(source, trials(source), directory, environment.congestion_control(source.spec))

    @property
    def left(self) -> list[Trial]:
        """The trials still to run."""
        return [trial for trial in self.planned if trial.id not in self.records]

    def go(self, open_lab: Callable[[], Lab], announce: Announce) -> Run:
        """Run what is left.

        Raises:
            PrivilegeError, DiskFullError, OutputError: no trial can go on; finished ones are kept.
        """
        surroundings = environment.describe(self.source.spec, self.congestion_control)
        surroundings["lab"] = self.directory.environment().get("lab", {})
        self.directory.save_environment(surroundings)
        self.directory.save_table(self._in_order())
        lab = open_lab()
        try:
            with Referee() as referee, announce(self.left) as reporter:
                for trial in self.left:
                    reporter.started(trial)
                    lab = self._one(trial, lab, open_lab, referee, reporter, surroundings)
        finally:
            lab.close()
        return Run(self.directory.path, self._in_order())

    def _one(
        self,
        trial: Trial,
        lab: Lab,
        open_lab: Callable[[], Lab],
        referee: Referee,
        reporter: Lines,
        surroundings: dict[str, Any],
    ) -> Lab:
        """Run one trial and keep it; the lab to use next, a new one after a failure."""
        outcome = execute(trial, lab, referee, self.directory.path, self.congestion_control, reporter.advanced)
        if outcome.samples is not None:
            results.save_samples(self.directory.samples(trial.id), outcome.samples)
        surroundings["lab"][trial.id] = outcome.lab
        self.directory.save_environment(surroundings)
        self.directory.save_record(outcome.record)
        self.records[trial.id] = outcome.record
        self.directory.save_table(self._in_order())
        reporter.finished(outcome.record)
        if outcome.record["status"] == "done":
            return lab
        lab.close()
        return open_lab()

    def _in_order(self) -> list[dict[str, Any]]:
        return [self.records[trial.id] for trial in self.planned if trial.id in self.records]


def write_report(path: Path) -> Path:
    """The run's report.html.

    Raises:
        TestbedError: the run directory is damaged, or the report cannot be written.
    """
    from analysis.report import write  # here, for it loads plotly

    try:
        return write(path)
    except OSError as error:
        raise TestbedError(f"{path}/report.html: {error.strerror or error}", fix="free some space") from None
