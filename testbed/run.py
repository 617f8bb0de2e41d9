"""A whole experiment: every trial that is not finished yet, one after the other, each kept as soon as it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from testbed import environment, results
from testbed.execute import execute
from testbed.lab.base import Lab
from testbed.lab.choice import opener
from testbed.progress import Lines
from testbed.referee import Referee
from testbed.rundir import RunDirectory
from testbed.spec import Source
from testbed.trial import Trial
from testbed.trials import trials
from workloads.sync import libraries

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
    """An experiment that was checked, and has its lab and its directory; :meth:`go` runs it. Use in ``with``."""

    def __init__(
        self, source: Source, directory: Callable[[], RunDirectory], open_lab: Callable[[], Lab] | None = None
    ) -> None:
        """``open_lab`` is for another lab than the spec's.

        Raises:
            TestbedError: the spec makes no sense here, no lab can be had, or the directory cannot be used.
        """
        self.source = source
        self.planned = trials(source)
        self.congestion_control = environment.congestion_control(source.spec)
        self._open_lab = open_lab or opener(source.spec.lab)
        self._lab = self._open_lab()
        self._lab_is_spent = False
        try:
            for trial in self.planned:
                for settings in trial.settings_met:
                    self._lab.require(trial.network.topology, settings)
                libraries.require(trial.network.forest.library)
            self.directory = directory()
        except BaseException:
            self._lab.close()
            raise
        try:
            self.records = self.directory.finished(self.planned)
        except BaseException:
            self.close()
            raise

    @classmethod
    def new(cls, source: Source, out: Path | None, open_lab: Callable[[], Lab] | None = None) -> Experiment:
        """Run into ``out``, which must not exist or be empty; None takes one under runs/."""
        return cls(source, lambda: RunDirectory.create(out, source), open_lab)

    @classmethod
    def resumed(cls, path: Path, source: Source | None, open_lab: Callable[[], Lab] | None = None) -> Experiment:
        """Go on with the run in ``path``; ``source`` must give the same trials, None takes the run's own spec."""
        directory = RunDirectory.reopen(path)
        try:
            return cls(source or directory.source(), lambda: directory, open_lab)
        except BaseException:
            directory.close()
            raise

    def __enter__(self) -> Experiment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the lab, and let another run have the directory."""
        try:
            self._lab.close()
        finally:
            self.directory.close()

    @property
    def left(self) -> list[Trial]:
        """The trials still to run."""
        return [trial for trial in self.planned if trial.id not in self.records]

    def go(self, announce: Announce) -> Run:
        """Run what is left.

        Raises:
            DiskFullError, OutputError, PrivilegeError: no trial can go on; finished ones are kept.
        """
        surroundings = environment.describe(self.source.spec, self.congestion_control)
        surroundings["lab"] = self.directory.environment().get("lab", {})
        self.directory.save_environment(surroundings)
        self.directory.save_table(self._in_order())
        left = self.left
        with Referee() as referee, announce(left) as reporter:
            for trial in left:
                reporter.started(trial)
                self._one(trial, referee, reporter, surroundings)
        return Run(self.directory.path, self._in_order())

    def _one(self, trial: Trial, referee: Referee, reporter: Lines, surroundings: dict[str, Any]) -> None:
        """Run one trial and keep it; one that failed has closed the lab, so the next gets a new one."""
        if self._lab_is_spent:
            self._lab = self._open_lab()
        outcome = execute(trial, self._lab, referee, self.directory.path, self.congestion_control, reporter.advanced)
        self._lab_is_spent = outcome.record["status"] == "failed"
        if outcome.samples is not None:
            results.save_samples(self.directory.samples(trial.id), outcome.samples)
        surroundings["lab"][trial.id] = outcome.lab
        self.directory.save_environment(surroundings)
        self.directory.save_record(outcome.record)
        self.records[trial.id] = outcome.record
        self.directory.save_table(self._in_order())
        reporter.finished(outcome.record)

    def _in_order(self) -> list[dict[str, Any]]:
        return [self.records[trial.id] for trial in self.planned if trial.id in self.records]


def write_report(paths: Sequence[Path], out: Path | None = None) -> Path:
    """The report of a run, in its directory, or of several at ``out``.

    Raises:
        OutputError: a run directory is damaged, they are of different experiments, or the report cannot be written.
        DiskFullError: no room is left.
    """
    from analysis import beside, report  # here, for they load plotly

    return report.write(paths[0]) if out is None else beside.write(paths, out)
