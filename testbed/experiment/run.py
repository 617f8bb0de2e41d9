"""A whole experiment: every trial that is not finished yet, one after the other, each kept as soon as it ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from testbed.analysis.jobs import id_of, singly
from testbed.control.registry import of_kind as controllers_of
from testbed.execution.execute import Outcome
from testbed.execution.results import attempt_count
from testbed.execution.so_far import SoFar
from testbed.experiment import attempts, provenance, resume
from testbed.experiment.finding import settled
from testbed.experiment.progress import Lines
from testbed.experiment.repeats import ImpreciseCell, Lacking, Part, Planned, Record, Selection, topped_up
from testbed.experiment.runner import Checker, Here, Runner, Stopped
from testbed.lab.choice import opener
from testbed.lab.place import Opening
from testbed.run_directory import stored
from testbed.run_directory.directory import RunDirectory
from testbed.run_directory.layout import TABLES
from testbed.spec import Source
from testbed.trial.model import Trial
from testbed.workloads.kinds import kinds

Announce = Callable[[Sequence[Trial]], Lines]
"""Makes the reporter, once it is known which trials are to run."""


@dataclass(frozen=True)
class Run:
    """Results of a run: its directory, the label of the spec's first arm or of its first job, and the records of its
    trials or of their jobs, by repeat and in the spec's order."""

    path: Path
    first: str
    records: list[Record]
    loose: Sequence[ImpreciseCell] = ()
    """Cells that are not known as well as the spec wants."""
    promise: str = ""
    """Sentence about how many intervals of the other cells cover the median (:meth:`.Planned.promise`)."""

    @property
    def failed(self) -> bool:
        return any(record["status"] == "failed" for record in self.records)


class Experiment:
    """An experiment that was checked, and has its runner and its directory; :meth:`go` runs it. Use in ``with``."""

    def __init__(
        self,
        source: Source,
        directory: Callable[[int], RunDirectory],
        open_runner: Callable[[], Checker] | None = None,
        part: Part | None = None,
        only: Selection | None = None,
        lacking: Lacking | None = None,
        most_rounds: int | None = None,
        *,
        afresh: bool = False,
        wanted: Collection[str] = attempts.WANTED,
    ) -> None:
        """``directory`` is told how many trials there will be in any case; ``open_runner`` opens the runner, if it is
        not :class:`.Here` in the spec's lab; ``only`` selects the cells to run, if not all; ``lacking`` says, once all
        have run, which cells need more VALID trials; ``most_rounds`` is how many rounds the directory may hold, if more
        than the spec asks for.
        ``afresh`` has trials that are INVALID only because of the machine measured again, however often they were
        before. ``wanted`` are the numbers for which a trial is measured again.

        Raises:
            TestbedError: the spec makes no sense here, no lab can be had, or the directory cannot be used.
        """
        self.source = source
        self._lacking = lacking
        self._wanted, self._patience = wanted, attempts.Patience()
        kinds()  # one of another package that cannot be imported is told now, and not after the first trial
        self._plan = Planned(source, part, only, most_rounds)
        self._most_rounds = most_rounds
        self.congestion_controls = list(
            dict.fromkeys(provenance.congestion_control(trial.spec) for trial in self._plan.firsts)
        )
        self._runner: Checker = open_runner() if open_runner else here(source)
        try:
            self._plan.require(self._runner.require)
            for trial in self._plan.firsts:
                for job in trial.jobs:
                    job.kind.software.require(job.plan)
                    controllers_of(job.kind)
            self.directory = directory(len(self._plan.trials))
        except BaseException:
            self._runner.close()
            raise
        try:
            resume.keep_ids(self.directory.path, self._plan)
            resume.check_asked_for(self.directory.path, self._plan)
            self.records = resume.finished(self.directory.path, self._plan.trials)
            disturbed = {one: record for one, record in self.records.items() if attempts.disturbed(record, wanted)}
            self._before = {one: attempt_count(record) for one, record in disturbed.items()} if afresh else {}
            self._extend()
        except BaseException:
            self.close()
            raise

    @classmethod
    def new(
        cls,
        source: Source,
        out: Path | None,
        open_runner: Callable[[], Checker] | None = None,
        part: Part | None = None,
        only: Selection | None = None,
        lacking: Lacking | None = None,
        *,
        wanted: Collection[str] = attempts.WANTED,
    ) -> Experiment:
        """Run into ``out``, which must not exist or be empty; None takes one under runs/."""
        source = settled(source, part=part)
        most = topped_up(source.spec) if lacking else None

        def directory(count: int) -> RunDirectory:
            return RunDirectory.create(out, source, count, part, most)

        return cls(source, directory, open_runner, part, only, lacking, most, wanted=wanted)

    @classmethod
    def resumed(
        cls,
        path: Path,
        source: Source | None,
        open_runner: Callable[[], Checker] | None = None,
        only: Selection | None = None,
        lacking: Lacking | None = None,
        *,
        afresh: bool = False,
        wanted: Collection[str] = attempts.WANTED,
    ) -> Experiment:
        """Go on with the run in ``path``; None takes the run's own spec. ``afresh`` as for a new one.

        ``source`` must be of the same experiment. It may ask for another number of rounds, as long as it has the trials
        that ran, and then takes the place of the run's spec.

        Raises:
            SpecError: it is of another experiment.
            TestbedError: as for a new one.
        """
        directory = RunDirectory.reopen(path)
        try:
            if source:
                source = settled(resume.as_began(path, source))
                resume.check_same(path, source)
            source, most = source or stored.source_of(path), stored.most_rounds(path)
            if lacking:
                most = max(most or 0, topped_up(source.spec))
            directed = partial(cls, source, lambda _: directory, open_runner, stored.part(path), only, lacking, most)
            return directed(afresh=afresh, wanted=wanted)
        except BaseException:
            directory.close()
            raise

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the runner, and let another run have the directory."""
        try:
            self._runner.close()
        finally:
            self.directory.close()

    @property
    def planned(self) -> list[Trial]:
        """The trials that are certain so far, in the order in which they run."""
        return self._plan.trials

    @property
    def left(self) -> list[Trial]:
        """The trials still to run, or to be measured again."""
        return [trial for trial in self.planned if trial.id not in self.records or self._is_unsettled(trial)]

    def _is_unsettled(self, trial: Trial) -> bool:
        """Whether a number that is wanted of a trial is INVALID only because of the machine, and it may be measured
        again."""
        record = self.records.get(trial.id)
        if record is None or self._patience.lost_by:
            return False
        return attempts.disturbed(record, self._wanted) and attempt_count(record) < self._most(trial)

    def _most(self, trial: Trial) -> int:
        """Return how many attempts a trial has at most."""
        return self._before.get(trial.id, 0) + 1 + trial.spec.retries

    def _extend(self) -> None:
        """Once nothing is left, plan rounds that are needed all the same, up to one that has not run."""
        while not self.left and not self._plan.is_full:
            lacking = self._lacking(self.directory.path) if self._lacking else None
            found = self._plan.another_round(self.records, self.directory.holds, lacking)
            if not found:
                break
            self.records |= resume.finished(self.directory.path, found)

    def go(self, announce: Announce) -> Run:
        """Run what is left.

        Raises:
            Stopped: somebody asked for the run's end between two trials; finished ones are kept.
            ChangedError, DiskFullError, OutputError, PrivilegeError: no trial can go on; finished ones are kept.
        """
        surroundings = self._surroundings()
        self.directory.save_spec(self.source, len(self.planned), self._most_rounds)
        self.directory.save_environment(surroundings)
        self.directory.save_table(self._in_order())
        left = self.left
        with announce(left) as reporter:
            self._work(reporter, surroundings)
        records = singly(self._in_order())
        first = self.source.spec.arms[0]
        base = next((one["label"] for one in records), "") if first.jobs else first.title
        return Run(self.directory.path, base, records, self._plan.loose(self.records), self._plan.promise(self.records))

    def _surroundings(self) -> dict[str, Any]:
        """Describe where the run goes on."""
        now = provenance.describe(self.source.spec, ", ".join(self.congestion_controls))
        return provenance.gone_on(stored.environment(self.directory.path), now)

    def _work(self, reporter: Lines, surroundings: dict[str, Any]) -> None:
        """Run what is left, and the rounds that turn out to be needed."""
        listener, left = _Listener(self, reporter), self.left
        while left:
            for _, trials in groupby(left, key=lambda trial: trial.repeat):
                self._round(list(trials), partial(self._run, listener=listener, surroundings=surroundings))
            self._extend()
            left = self.left
            reporter.added(left)

    def _round(self, trials: Sequence[Trial], run: Callable[[Sequence[Trial]], None]) -> None:
        """Run those of a round's trials that have not run, and then, in the same order, those that are measured again,
        until none is; the least often measured go first, so that a round that was cut off goes on as it would have."""
        run([trial for trial in trials if trial.id not in self.records])
        while unsettled := [trial for trial in trials if self._is_unsettled(trial)]:
            made = {trial.id: attempt_count(self.records[trial.id]) for trial in unsettled}
            run([trial for trial in unsettled if made[trial.id] == min(made.values())])

    def _run(self, trials: Sequence[Trial], listener: _Listener, surroundings: dict[str, Any]) -> None:
        """Hand trials to the runner, and keep the outcome of each.

        Raises:
            Stopped: somebody asked for the run's end.
        """
        by_id, runner = {trial.id: trial for trial in trials}, self._runner
        assert isinstance(runner, Runner)
        for outcome in runner.run(self._until_stopped(trials), self.directory.path, listener):
            self._keep(by_id[outcome.record["id"]], outcome, listener.reporter, surroundings)

    def _until_stopped(self, trials: Iterable[Trial]) -> Iterator[Trial]:
        for trial in trials:
            self.check_wanted()
            yield trial

    def again(self, trial: Trial) -> str:
        """Say, for people, which of how many measurements of a trial comes next; empty for the first one."""
        before = self.directory.record(trial)
        number = attempt_count(before) + 1 if before and before["status"] == "done" else 1
        return f"measured again ({number} of {self._most(trial)})" if number > 1 else ""

    def _keep(self, trial: Trial, outcome: Outcome, reporter: Lines, surroundings: dict[str, Any]) -> None:
        """Store what a trial left, beside what its attempts before left."""
        record, is_new = attempts.joined(self.directory.record(trial), outcome.record)
        if is_new:
            self._save_tables(trial, outcome)
            surroundings["lab"][trial.id] = outcome.lab
            self.directory.save_environment(surroundings)
        self.directory.save_record(record)
        self.records[trial.id] = record
        self.directory.save_table(self._in_order())
        had_patience = not self._patience.lost_by
        self._patience.note(trial.id, attempts.causes(record, self._wanted))
        reporter.finished(record, again=self._is_unsettled(trial))
        if had_patience and self._patience.lost_by and trial.spec.retries:
            reporter.gave_up(self._patience.lost_by)

    def _save_tables(self, trial: Trial, outcome: Outcome) -> None:
        """Keep what an attempt left besides its record."""
        if outcome.samples is not None:
            self.directory.save_samples(trial.id, outcome.samples)
        for name, samples in outcome.jobs.items():
            self.directory.save_samples(id_of(trial.id, name), samples)
        for folder in TABLES:
            if (table := getattr(outcome, folder)) is not None:
                self.directory.save_table_of(trial.id, folder, table)

    def check_wanted(self) -> None:
        """
        Raises:
            Stopped: somebody asked for the run's end.
        """
        if self.directory.is_asked_to_stop:
            raise Stopped

    def _in_order(self) -> list[Record]:
        return self._plan.sorted(self.records)


class _Listener:
    """Passes what a runner tells on to the reporter. Raises Stopped in place of a start if the run is to end."""

    def __init__(self, experiment: Experiment, reporter: Lines) -> None:
        self._experiment, self.reporter = experiment, reporter

    def waiting(self, what: str) -> None:
        self.reporter.waiting(what)

    def started(self, trial: Trial) -> None:
        self._experiment.check_wanted()
        self.reporter.started(trial, self._experiment.again(trial))

    def advanced(self, iterations: int, so_far: SoFar | None = None) -> None:
        self.reporter.advanced(iterations, so_far)


def here(source: Source) -> Here:
    """Open the runner of a spec's trials on this machine, in the spec's lab.

    Raises:
        TestbedError: no lab can be had.
    """
    spec = source.spec
    opening = Opening(spec.lab_options, every_address=spec.meets_anywhere)
    return Here(opener(spec.lab, opening), spec.place.limits)


def write_report(paths: Sequence[Path], out: Path | None = None, form: str = "html") -> Path:
    """The report of a run, in its directory, or at ``out``; of several there.

    Raises:
        OutputError: a run directory is damaged, or the report cannot be written.
        DiskFullError: no room is left.
    """
    from testbed.analysis import report  # here, for it loads pandas and plotly

    return report.write(paths, out, form)
