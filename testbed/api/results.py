"""Results of a run, in pandas: a table of its trials, and the samples, links and checks of each.

Run directories of others are read with the bounds that ``testbed report`` has (:mod:`testbed.files.foreign`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from testbed.analysis.load import load as read_run
from testbed.analysis.load import read_samples
from testbed.analysis.numbers.goal import QUALITIES
from testbed.analysis.record.happened import Event
from testbed.analysis.record.trial import LinkCount, RecordedCheck
from testbed.analysis.recorded import Run as RecordedRun
from testbed.analysis.recorded import Trial as RecordedTrial
from testbed.api import html
from testbed.base.errors import UsageError
from testbed.base.listing import counted

if TYPE_CHECKING:
    import pandas as pd


def load(path: str | os.PathLike[str]) -> Run:
    """Open the run in a run directory, finished or not. Tables of samples are read when they are asked for.

    Raises:
        OutputError: it is no run directory, or a file of it is damaged.
    """
    return Run(read_run(Path(path).absolute(), samples=False))


@dataclass(frozen=True, repr=False, eq=False)
class Trial:
    """A trial of a run. :attr:`recorded` has all that is known of it."""

    recorded: RecordedTrial
    run_path: Path
    leaves_samples: bool = True
    """Whether its kind leaves samples, where it does not fail."""

    def __repr__(self) -> str:
        return f"<Trial {self.id}: {'FAILED' if self.failed else self.verdict}>"

    @property
    def id(self) -> str:
        return self.recorded.id

    @property
    def failed(self) -> bool:
        return not self.recorded.done

    @property
    def error(self) -> str | None:
        """Reason why it failed; None if it did not."""
        return self.recorded.error

    @property
    def verdict(self) -> str | None:
        """Verdict: VALID, INVALID or UNWATCHED; None where it failed. :attr:`checks` says why."""
        return self.recorded.verdict

    @property
    def metrics(self) -> dict[str, float | None]:
        """Numbers of the trial, such as ``gst_median_s``; None where one is not known."""
        return dict(vars(self.recorded.metrics))

    @property
    def point(self) -> dict[str, Any]:
        """Values of what the spec sweeps."""
        return dict(self.recorded.point)

    @property
    def links(self) -> pd.DataFrame:
        """Table with a row for each directed link: its rate, the bytes and drops that the kernel counted, and theory's
        bytes."""
        return _frame(LinkCount, self.recorded.links)

    @property
    def checks(self) -> pd.DataFrame:
        """Table with a row for each check that the verdict is made from."""
        return _frame(RecordedCheck, self.recorded.checks)

    @property
    def events(self) -> pd.DataFrame:
        """Table with a row for each thing that was done to it."""
        return _frame(Event, self.recorded.events)

    @cached_property
    def samples(self) -> pd.DataFrame | None:
        """Table with a row for each worker and iteration; None where the trial left none, as a command or a failed
        trial.

        Raises:
            OutputError: the table is missing, damaged, or larger than is read.
        """
        needed = self.leaves_samples and not self.failed
        return read_samples(self.run_path, self.id, needed, self.recorded.warmup)


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """A run: ``run[id]`` is a trial, and a loop over it gives them all. :attr:`recorded` has all that is known."""

    recorded: RecordedRun

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} FAILED" if self.failed else ""
        return f"<Run {self.recorded.name}: {counted(len(self), 'trial')}{failed}, in {self.path}>"

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.recorded.path

    @property
    def failed(self) -> tuple[str, ...]:
        """Ids of the trials that failed; none is the good case, so ``if run.failed:`` asks whether any did."""
        return tuple(trial.id for trial in self if trial.failed)

    @cached_property
    def trials(self) -> dict[str, Trial]:
        """Trials by id."""
        return {one.id: Trial(one, self.path, one.has_iterations) for one in self.recorded.trials}

    def __getitem__(self, trial: str) -> Trial:
        if trial not in self.trials:
            from testbed.base.nearest import nearest

            raise UsageError(f"{self.recorded.name} has no trial {trial!r}", fix=nearest(str(trial), list(self.trials)))
        return self.trials[trial]

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials.values())

    def __len__(self) -> int:
        return len(self.trials)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Table with a row for each trial, by its id: what it was, its numbers, and the verdict on each of them.
        ``reasons`` names the checks that make a number INVALID or leave it UNWATCHED."""
        import pandas as pd

        rows = [_row(one) for one in self.recorded.trials]
        return pd.DataFrame(rows, index=pd.Index(self.trials, name="trial"))

    def report(self, out: str | os.PathLike[str] | None = None, form: Literal["html", "md", "latex"] = "html") -> Path:
        """Write the report, into the run directory where ``out`` names no other file; return the path.

        Raises:
            OutputError: a file of the run is damaged, or the report cannot be written.
        """
        from testbed.analysis import report

        return report.write(self.path, Path(out) if out is not None else None, form)

    def _repr_html_(self) -> str:
        from testbed.analysis.report import headline, words
        from testbed.analysis.report.points import apart
        from testbed.analysis.report.tables import summary

        run = apart(self.recorded)
        found = summary(run)
        told = [words.counts(run), words.doubts(run) or "", words.simulated(run), headline.unlike(run), str(self.path)]
        rows = [
            [one.name, *(f"{value.text} ({value.note})" if value.note else value.text for value in one.values)]
            for one in found.rows
        ]
        lead = html.paragraph(f"{headline.finding(run)} {headline.unreliable(run)}".strip(), strong=True)
        return lead + html.table(found.columns, rows) + html.listed(text for text in told if text)


def _row(trial: RecordedTrial) -> dict[str, Any]:
    return {
        **trial.point,
        **{name: getattr(trial, name) for name in ("label", "topology", "scheme", "batch", "repeat", "world")},
        "status": "done" if trial.done else "failed",
        "verdict": trial.verdict,
        "reasons": ", ".join(dict.fromkeys(check.name for check in trial.reasons)),
        **vars(trial.metrics),
        **{name: getattr(trial.accuracy, name) for name in QUALITIES},
        "weights_error": trial.accuracy.weights_error,
        **{f"{name}_verdict": number.verdict for name, number in trial.numbers.items()},
        **{f"{name}_error": number.error for name, number in trial.numbers.items()},
        "attempts": trial.attempts,
        "error": trial.error,
    }


def _frame(kind: type[Any], values: Sequence[Any]) -> pd.DataFrame:
    """Make a table with a row for each dataclass of a kind, and a column for each of its fields."""
    import pandas as pd

    names = [field.name for field in fields(kind)]
    return pd.DataFrame([[getattr(value, name) for name in names] for value in values], columns=names)
