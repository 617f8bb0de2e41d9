"""An experiment in this process, from what was asked for to the exit code: what ``testbed run`` does and tells of.

``testbed.run()`` starts that command in a process of its own. Errors name the command's options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.api import labs
from testbed.base import exits
from testbed.base.columns import Layout, columns
from testbed.base.errors import UsageError
from testbed.base.listing import counted
from testbed.experiment.attempts import WANTED
from testbed.experiment.finding import settled
from testbed.experiment.repeats import Planned
from testbed.experiment.resume import with_found_of
from testbed.experiment.run import Announce, Experiment, Run, write_report
from testbed.experiment.runner import Here, Runner, Stopped
from testbed.experiment.selection import ALL, Wanted
from testbed.run_directory.layout import STOP
from testbed.run_directory.stored import source_of
from testbed.spec import Spec, load
from testbed.spec.yaml import WRITES_ONE
from testbed.spread.engine import opened as engine
from testbed.spread.gather import Spread
from testbed.spread.machines import Machines, opened

if TYPE_CHECKING:
    from testbed.analysis.comparing.compare import Comparison
    from testbed.comparison.gate import Gate
    from testbed.lab.place import Opening


__all__ = ["Against", "Asked", "Interrupted", "Judged", "Running", "Wanted", "check_several", "report_together"]


@dataclass(frozen=True)
class Asked:
    """Request for an experiment: what to run, and where.

    Attributes:
        spec: the spec's file; None where a run goes on with its own.
        overrides: settings as after ``--set``.
        out: the new run directory; None takes one in ``runs/``.
        resume: the directory of a run to go on with.
        backend: a lab in place of the spec's.
        inventory: an Ansible inventory, of which with ``allow_missing`` hosts may be missing.
        part: ``2/3`` for the second of three parts.
        found: the directory of a run of the same spec that has found what arms leave to be found.
        patience: more settings, which a run may also go on with that has its own spec.
        wanted: the arms, points and trials to run, if not all.
        on: the engine whose machines run it, as ``local://2``; over a network that is trusted, if ``trusts_network``.
    """

    spec: Path | None
    overrides: Sequence[str] = ()
    out: Path | None = None
    resume: Path | None = None
    backend: str | None = None
    inventory: Path | None = None
    allow_missing: bool = False
    part: str | None = None
    found: Path | None = None
    patience: Sequence[str] = ()
    wanted: Wanted = ALL
    on: str | None = None
    trusts_network: bool = False

    @property
    def changes(self) -> list[str]:
        """The settings that options change in the spec."""
        if self.spec is None:
            return labs.with_backend(self.overrides, self.backend)
        lab = labs.lab_of(self.spec, self.overrides, self.backend, self.inventory)
        return labs.with_backend(self.overrides, lab)


@dataclass(frozen=True)
class Against:
    """Baseline that the run is compared with, if any, and how strictly; as after the options of ``testbed compare``."""

    baseline: Path | None = None
    thresholds: Sequence[str] = ()
    metrics: Sequence[str] = ()
    allow: Sequence[str] = ()
    accept_inconclusive: bool = False
    accept_failures: bool = False


def check_several(asked: Sequence[Asked], against: Against) -> None:
    """Find mistakes in each of several experiments before the first of them runs.

    Raises:
        UsageError: an option is about one run.
        TestbedError: one of the experiments cannot be.
    """
    first = asked[0]
    of_one = {"--out": first.out, "--resume": first.resume, "--part": first.part, "--found": first.found}
    of_one["--baseline"] = against.baseline
    for option, value in of_one.items():
        if value is not None:
            raise UsageError(f"{option} is about one run, and {len(asked)} specs are given", fix="give them one by one")
    for one in asked:
        assert one.spec is not None
        source = load(one.spec, [*one.changes, *one.patience])
        Planned(settled(source), only=one.wanted.of(source))


def report_together(runs: Sequence[Path]) -> Path:
    """Write one report of several runs, beside their directories.

    Raises:
        OutputError: a run directory is damaged, or the report cannot be written.
    """
    last = runs[-1]
    return write_report(runs, last.with_name(f"{last.name}-and-{len(runs) - 1}-more.html"))


class Interrupted(KeyboardInterrupt):
    """Somebody ended the run; ``kept`` says which trials are finished, and kept."""

    def __init__(self, kept: str) -> None:
        super().__init__()
        self.kept = kept


@dataclass(frozen=True)
class Judged:
    """Outcome of a run's comparison with its baseline."""

    found: Comparison
    exit_code: int

    def as_json(self) -> dict[str, Any]:
        from testbed.analysis.comparing.compare_output import as_json

        return as_json(self.found)

    def text(self, lay_out: Layout = columns) -> str:
        """Text of ``testbed compare``, its table laid out by ``lay_out``."""
        from testbed.analysis.comparing.compare_output import text

        return text(self.found, lay_out)

    def __str__(self) -> str:
        return self.text()


class Running:
    """An experiment that was checked, and has its lab and its directory. Use in ``with``, and call :meth:`go` there;
    :meth:`judge` is for when the lab has ended."""

    def __init__(self, asked: Asked, against: Against) -> None:
        """
        Raises:
            TestbedError: options make no sense together, or as :class:`testbed.experiment.run.Experiment`.
        """
        if asked.on and (asked.part or against.baseline):
            option = "--part" if asked.part else "--baseline"
            raise UsageError(f"--on and {option} exclude each other", fix="leave out one of the two")
        self._opening = labs.machines(asked.inventory, asked.allow_missing)
        overrides = asked.changes
        self._gate = _gate(against)
        self._accept_inconclusive = against.accept_inconclusive
        if self._gate and asked.spec:
            overrides = self._gate.prepared(asked.spec, overrides)
        self._experiment = _experiment(asked, overrides, self._opening, self._gate)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self._experiment.close()

    @property
    def path(self) -> Path:
        """The run directory."""
        return self._experiment.directory.path

    @property
    def is_compared(self) -> bool:
        """Whether there is a baseline, so that :meth:`judge` can be called."""
        return self._gate is not None

    def go(self, announce: Announce) -> tuple[Run, Path]:
        """Run what is left; return the run and the path of its report.

        Raises:
            Interrupted: somebody ended it.
            TestbedError: no trial can go on.
        """
        try:
            done = self._experiment.go(announce)
            return done, write_report([done.path])
        except Stopped:
            raise self._interrupted(before=f"{self.path / STOP} asked for it; ") from None
        except KeyboardInterrupt:
            raise self._interrupted() from None

    def judge(self, done: Run, announce: Announce) -> Judged:
        """Compare the run with its baseline, and measure once more what is suspicious.

        Raises:
            Interrupted: somebody ended the second measurement.
            TestbedError: as :meth:`testbed.comparison.gate.Gate.settle`.
        """
        from testbed.comparison.gate import MeasuringAgainInterrupted
        from testbed.comparison.options import exit_code

        gate = self._gate
        assert gate is not None  # is_compared
        source = self._experiment.source
        try:
            found, failed = gate.settle(done.path, source, _runner(self._opening, source.spec), announce)
        except MeasuringAgainInterrupted as cut:
            raise self._interrupted(f", and {cut.done} of {cut.planned} of the second measurement,") from None
        except KeyboardInterrupt:
            raise self._interrupted() from None
        code = exit_code(found, self._accept_inconclusive)
        failed = (done.failed or failed) and not gate.accept_failures
        return Judged(found, exits.TRIAL_FAILED if code != exits.REGRESSION and failed else code)

    def _interrupted(self, more: str = "", before: str = "") -> Interrupted:
        planned, left = len(self._experiment.planned), self._experiment.left
        unsettled = sum(trial.id in self._experiment.records for trial in left)
        again = f" ({unsettled} more will be measured again)" if unsettled else ""
        return Interrupted(f"{before}{planned - len(left)} of {counted(planned, 'trial')}{again}{more}")


def _experiment(asked: Asked, overrides: Sequence[str], opening: Opening, gate: Gate | None) -> Experiment:
    """
    Raises:
        UsageError: options exclude each other.
        TestbedError: as :class:`testbed.experiment.run.Experiment`.
    """
    spec, resume, part = asked.spec, asked.resume, asked.part
    if resume and asked.out:
        raise UsageError("--out and --resume exclude each other", fix="a resumed run stays in its directory")
    if resume and overrides and not spec:
        raise UsageError("--set and --backend need the SPEC that they change", fix="name it, or resume without them")
    if resume and part:
        raise UsageError("--part and --resume exclude each other", fix="a resumed run stays the part that it was")
    if resume and asked.found:
        raise UsageError("--found and --resume exclude each other", fix="a resumed run keeps what it found")
    overrides = [*overrides, *asked.patience]
    lacking, wanted = (gate.lacking, gate.wanted) if gate else (None, WANTED)
    if resume:
        source = load(spec, overrides) if spec else source_of(resume, asked.patience) if asked.patience else None
        known = source_of(resume) if source is None and (opening.inventory or asked.wanted or asked.on) else source
        open_runner = _runner(opening, known.spec) if known and opening.inventory else None
        only = asked.wanted.of(known) if known else None
        if asked.on and known:
            machines = _machines(asked, known.spec)
            return _closing(machines, lambda: Spread.resumed(resume, source, lambda: machines, only))
        return Experiment.resumed(resume, source, open_runner, only, lacking, wanted=wanted)
    if not spec:
        raise UsageError("no SPEC is given", fix=f"testbed run SPEC; {WRITES_ONE}")
    source = load(spec, overrides)
    if asked.found:
        source = with_found_of(asked.found, source)
    open_runner = _runner(opening, source.spec)
    of, only = _part(part) if part else None, asked.wanted.of(source)
    if asked.on:
        machines = _machines(asked, source.spec)
        return _closing(machines, lambda: Spread.new(machines.settled(source), asked.out, lambda: machines, None, only))
    return Experiment.new(source, asked.out, open_runner, of, only, lacking, wanted=wanted)


def _machines(asked: Asked, spec: Spec) -> Machines:
    """Reach the machines of ``--on``, and ask them what they are.

    Raises:
        UsageError, HostError, MissingToolError: they cannot be had.
    """
    return opened(partial(engine, str(asked.on), asked.trusts_network), spec)


def _closing(machines: Machines, make: Callable[[], Experiment]) -> Experiment:
    """Make an experiment on machines, which are let go where it cannot be."""
    try:
        return make()
    except BaseException:
        machines.close()
        raise


def _runner(opening: Opening, spec: Spec) -> Callable[[], Runner]:
    """Return the opener of the runner of a spec's trials: they run here, in the spec's lab.

    Raises:
        UsageError: there is an inventory, and the lab takes none.
    """
    return partial(Here, labs.opener(opening, spec), spec.place.limits)


def _part(text: str) -> tuple[int, int]:
    """Read ``2/3`` as its numbers.

    Raises:
        UsageError: it is none, or there is no such part.
    """
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count:
        raise UsageError(f"--part {text}: not a part", fix="write it as 2/3, for the second of three")
    return number, count


def _gate(against: Against) -> Gate | None:
    """Make the gate that the run is compared by, if any; the baseline is read first, so that nothing runs in vain.

    Raises:
        UsageError: something is said of a comparison, and there is none.
        OutputError: the baseline cannot be read.
    """
    if against.baseline is None:
        accepted = against.accept_inconclusive or against.accept_failures
        if against.thresholds or against.metrics or against.allow or accepted:
            raise UsageError(
                "--threshold, --metric, --allow, --accept-inconclusive and --accept-failures need a comparison",
                fix="add --baseline FILE",
            )
        return None
    from testbed.analysis.comparing.measured import read
    from testbed.comparison.gate import Gate
    from testbed.comparison.options import wanted

    limits = read(against.baseline), wanted(against.thresholds, against.metrics)
    return Gate(*limits, against.allow, against.accept_failures)
