"""A whole experiment: every trial that is not finished yet, one after the other, each kept as soon as it ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from testbed import environment, results
from testbed.capacity.fit import fit
from testbed.execute import execute
from testbed.lab.base import Lab
from testbed.lab.choice import opener
from testbed.progress import Lines
from testbed.referee import Referee
from testbed.rundir import RunDirectory
from testbed.sizing import Loose, Part, Planned, Record
from testbed.spec import Source
from testbed.trial import Trial
from workloads.sync import libraries

Announce = Callable[[Sequence[Trial]], Lines]
"""Makes the reporter, once it is known which trials are to run."""


@dataclass(frozen=True)
class Run:
    """What a run left: its directory, the label of the spec's first arm, and the records of its trials, by repeat and
    in the spec's order."""

    path: Path
    first: str
    records: list[Record]
    loose: Sequence[Loose] = ()
    """Cells that are not known as well as the spec wants."""

    @property
    def failed(self) -> bool:
        return any(record["status"] == "failed" for record in self.records)


class Experiment:
    """An experiment that was checked, and has its lab and its directory; :meth:`go` runs it. Use in ``with``."""

    def __init__(
        self,
        source: Source,
        directory: Callable[[int], RunDirectory],
        open_lab: Callable[[], Lab] | None = None,
        part: Part | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        """``directory`` is told how many trials there will be in any case; ``open_lab`` is for another lab than the
        spec's; ``only`` holds the ids of the cells' first trials to run, if not all.

        Raises:
            TestbedError: the spec makes no sense here, no lab can be had, or the directory cannot be used.
        """
        self.source = source
        self._plan = Planned(source, part, only)
        self.congestion_controls = list(
            dict.fromkeys(environment.congestion_control(trial.spec) for trial in self._plan.firsts)
        )
        self._open_lab = open_lab or opener(source.spec.lab, source.spec.docker.containers())
        self._lab = self._open_lab()
        self._lab_is_spent = False
        try:
            for trial in self._plan.firsts:
                for settings in trial.settings_met:
                    self._lab.require(trial.network.topology, settings)
                libraries.require(trial.network.forest.library)
            self.directory = directory(len(self._plan.trials))
        except BaseException:
            self._lab.close()
            raise
        try:
            self.directory.check_asked_for(self._plan)
            self.records = self.directory.finished(self._plan.trials)
            self._extend()
        except BaseException:
            self.close()
            raise

    @classmethod
    def new(
        cls,
        source: Source,
        out: Path | None,
        open_lab: Callable[[], Lab] | None = None,
        part: Part | None = None,
        only: Collection[str] | None = None,
    ) -> Experiment:
        """Run into ``out``, which must not exist or be empty; None takes one under runs/."""
        source = fit(source, part=part is not None)
        return cls(source, lambda count: RunDirectory.create(out, source, count, part), open_lab, part, only)

    @classmethod
    def resumed(
        cls,
        path: Path,
        source: Source | None,
        open_lab: Callable[[], Lab] | None = None,
        only: Collection[str] | None = None,
    ) -> Experiment:
        """Go on with the run in ``path``; None takes the run's own spec.

        ``source`` must be of the same experiment. It may ask for another number of rounds, as long as it has the trials
        that ran, and then takes the place of the run's spec.

        Raises:
            SpecError: it is of another experiment.
            TestbedError: as for a new one.
        """
        directory = RunDirectory.reopen(path)
        try:
            if source:
                source = fit(directory.as_began(source))
                directory.check_same(source)
            return cls(source or directory.source(), lambda _: directory, open_lab, directory.part(), only)
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
    def planned(self) -> list[Trial]:
        """The trials that are certain so far, in the order in which they run."""
        return self._plan.trials

    @property
    def left(self) -> list[Trial]:
        """The trials still to run."""
        return [trial for trial in self.planned if trial.id not in self.records]

    def _extend(self) -> None:
        """Once nothing is left, plan rounds that are needed all the same, up to one that has not run."""
        while not self.left and (found := self._plan.another_round(self.records, self.directory.holds)):
            self.records |= self.directory.finished(found)

    def go(self, announce: Announce) -> Run:
        """Run what is left.

        Raises:
            DiskFullError, OutputError, PrivilegeError: no trial can go on; finished ones are kept.
        """
        now = environment.describe(self.source.spec, ", ".join(self.congestion_controls))
        surroundings = environment.gone_on(self.directory.environment(), now)
        self.directory.save_spec(self.source, len(self.planned))
        self.directory.save_environment(surroundings)
        self.directory.save_table(self._in_order())
        left = self.left
        with Referee() as referee, announce(left) as reporter:
            while left:
                for trial in left:
                    reporter.started(trial)
                    self._one(trial, referee, reporter, surroundings)
                self._extend()
                left = self.left
                reporter.added(left)
        return Run(
            self.directory.path, self.source.spec.arms[0].title, self._in_order(), self._plan.loose(self.records)
        )

    def _one(self, trial: Trial, referee: Referee, reporter: Lines, surroundings: dict[str, Any]) -> None:
        """Run one trial and keep it; one that failed has closed the lab, so the next gets a new one."""
        if self._lab_is_spent:
            self._lab = self._open_lab()
        control = environment.congestion_control(trial.spec)
        outcome = execute(trial, self._lab, referee, self.directory.path, control, reporter.advanced)
        self._lab_is_spent = outcome.record["status"] == "failed"
        if outcome.samples is not None:
            results.save_samples(self.directory.samples(trial.id), outcome.samples)
        surroundings["lab"][trial.id] = outcome.lab
        self.directory.save_environment(surroundings)
        self.directory.save_record(outcome.record)
        self.records[trial.id] = outcome.record
        self.directory.save_table(self._in_order())
        reporter.finished(outcome.record)

    def _in_order(self) -> list[Record]:
        return self._plan.sorted(self.records)


def write_report(paths: Sequence[Path], out: Path | None = None, form: str = "html") -> Path:
    """The report of a run, in its directory, or at ``out``; of several there.

    Raises:
        OutputError: a run directory is damaged, or the report cannot be written.
        DiskFullError: no room is left.
    """
    from analysis import report  # here, for it loads pandas and plotly

    return report.write(paths, out, form)
