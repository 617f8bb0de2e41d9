"""The gate: an experiment is run, compared with a baseline, and what looks slower is measured once more.

``run --baseline`` and the pytest plugin go through here; ``analysis/comparing/compare.py`` says what is judged how.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from testbed.analysis.cell import Cell
from testbed.analysis.comparing import compare_output, conditions
from testbed.analysis.comparing.compare import REPEATS, Comparison, compare, least_repeats
from testbed.analysis.comparing.measured import METRICS, RERUN, Measured, Side, describe, read, write_baseline
from testbed.analysis.verdicts import Number, in_short
from testbed.base.errors import IncomparableError
from testbed.base.listing import counted
from testbed.experiment import provenance
from testbed.experiment.finding import settled
from testbed.experiment.repeats import Lacking, Selection
from testbed.experiment.run import Announce, Experiment
from testbed.experiment.runner import Runner
from testbed.files.writing import write_bytes
from testbed.run_directory.resolved import resolved
from testbed.spec import Source, load
from testbed.trial.model import Trial

COMPARISON = "comparison"
"""Name of the files in the run's directory, with the endings of :data:`WRITTEN`."""
WRITTEN: Mapping[str, Callable[[Comparison], str]] = {
    "md": compare_output.markdown,
    "xml": compare_output.junit,
    "json": lambda found: json.dumps(compare_output.as_json(found), indent=2, ensure_ascii=False) + "\n",
}


class MeasuringAgainInterrupted(KeyboardInterrupt):
    """Somebody ended the second measurement, when ``done`` of its ``planned`` trials were finished."""

    def __init__(self, done: int, planned: int) -> None:
        super().__init__()
        self.done, self.planned = done, planned


@dataclass(frozen=True)
class Gate:
    """Baseline that a run is compared with, and how strictly."""

    baseline: Side
    thresholds: Mapping[str, float]
    allowed: Collection[str] = ()
    accept_failures: bool = False

    @property
    def wanted(self) -> Collection[str]:
        """The numbers that are compared, for which trials are measured again."""
        return tuple(self.thresholds)

    def prepared(self, spec: Path, overrides: list[str]) -> list[str]:
        """Change the overrides so that a run can decide: with enough repeats, where the spec leaves them to us.

        Raises:
            IncomparableError: conditions would differ that are not allowed to, or no number of the baseline counts, so
                nothing needs to run.
            SpecError, UsageError, OutputError: the spec cannot be used.
        """
        source = settled(load(spec, overrides))
        now = provenance.describe(source.spec, provenance.congestion_control(source.spec))
        new = describe(source.name, resolved(source), now)
        new = replace(new, name=f"{new.name} with --set") if overrides else new
        labels = dict.fromkeys(cell.label for cell in self.baseline.cells)
        conditions.check(self.baseline, new, [(label, label) for label in labels], self.allowed)
        if not any(trial.valid_in(name) for trial in self.baseline.trials for name in self.wanted):
            raise _useless(self.baseline.name)
        return overrides if "repeats" in source.spec.model_fields_set else [*overrides, f"repeats={REPEATS}"]

    def lacking(self, run: Path, *, again: bool = False) -> Mapping[Cell, int]:
        """Find the cells of a run in which too few trials are VALID for a decision, and how many more would do; with
        ``again``, those of its second measurement."""
        try:
            return self._judge(read(run, again=again)).lacking
        except IncomparableError:  # which settle() says, too
            return {}

    def settle(
        self, run: Path, source: Source, open_runner: Callable[[], Runner] | None, announce: Announce
    ) -> tuple[Comparison, bool]:
        """Compare a finished run with the baseline, measure again what is suspicious, and write down what was found, in
        every format; return whether a trial of those measured again failed, too.

        Raises:
            IncomparableError: nothing can be compared.
            MeasuringAgainInterrupted: somebody ended the second measurement.
            TestbedError: as :class:`testbed.experiment.run.Experiment`.
        """
        failed = False
        new = read(run, again=False)
        found = self._judge(new)
        if found.suspicious:

            def suspicious(firsts: Sequence[Trial]) -> Collection[str]:
                return {first.id for first in firsts if first.cell in found.suspicious}

            def lacking(_: Path) -> Mapping[Cell, int]:
                return self.lacking(run, again=True)

            again = partial(_measure_again, suspicious, run / RERUN, source, open_runner)
            failed = again(announce, lacking, self.wanted)
            found = self._judge(read(run))
        for ending, write in WRITTEN.items():
            write_bytes(run / f"{COMPARISON}.{ending}", write(found).encode())
        return found, failed

    def _judge(self, new: Side) -> Comparison:
        return compare(
            self.baseline,
            new,
            thresholds=self.thresholds,
            allowed=self.allowed,
            accept_failures=self.accept_failures,
        )


def _measure_again(
    only: Selection,
    out: Path,
    source: Source,
    open_runner: Callable[[], Runner] | None,
    announce: Announce,
    lacking: Lacking,
    wanted: Collection[str],
) -> bool:
    """Run some trials once more, and more of them where too few are VALID; return whether one failed.

    Raises:
        MeasuringAgainInterrupted: somebody ended this.
        TestbedError: as :class:`testbed.experiment.run.Experiment`.
    """
    if (out / "resolved.json").exists():  # the run was cut off in the middle of this
        experiment = Experiment.resumed(out, source, open_runner, only, lacking, wanted=wanted)
    else:
        experiment = Experiment.new(source, out, open_runner, only=only, lacking=lacking, wanted=wanted)
    with experiment:
        try:
            return experiment.go(announce).failed
        except KeyboardInterrupt:
            planned = len(experiment.planned)
            raise MeasuringAgainInterrupted(planned - len(experiment.left), planned) from None


def _useless(run: Path | str) -> IncomparableError:
    return IncomparableError(
        f"{run} has no VALID trial, so nothing could be compared with it as a baseline",
        fix="testbed report RUN says why trials are not VALID",
    )


def make_baseline(run: Path, out: Path) -> dict[str, Any]:
    """Make a baseline of a run, and say what it holds, with a note where it could not decide anything.

    Raises:
        IncomparableError: the run has no VALID trial.
        OutputError: it is damaged, or ``out`` cannot be written.
    """
    side = read(run, iterations=True)
    valid = [one for one in side.trials if any(map(one.valid_in, one.values))]
    if not valid:
        raise _useless(run)
    write_baseline(side, out)
    needed = least_repeats(len(METRICS) * len(side.cells))
    of_cells = [[one for one in side.trials if one.cell == cell] for cell in side.cells]
    few = [trials for trials in of_cells if _fewest(trials) < needed]
    are_repeated = all(len(trials) >= min(needed, REPEATS) for trials in few)
    mend = f"testbed report {run} says why others are not" if are_repeated else f"run with --set repeats={REPEATS}"
    of = counted(len(side.cells), "cell")
    note = f"{len(few)} of {of} with fewer than the {needed} trials, VALID in every number, that a decision needs"
    return {
        "cells": len(side.cells),
        "trials": len(side.trials),
        "valid": len(valid),
        "verdict": in_short([{name: Number(of) for name, of in one.verdicts.items()} for one in side.trials]),
        "note": f"{note}: {mend}" if few else "",
    }


def _fewest(trials: Sequence[Measured]) -> int:
    """Count a cell's VALID trials, in that of its metrics in which the fewest are."""
    metrics = {name for one in trials for name in one.values}
    return min((sum(one.valid_in(name) for one in trials) for name in metrics), default=0)
