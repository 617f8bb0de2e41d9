"""Facts that the pages of an archive tell of its run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from testbed.analysis.comparing.compare import least_repeats
from testbed.analysis.comparing.measured import METRICS
from testbed.analysis.recorded import Run
from testbed.analysis.report.words import verdicts
from testbed.comparison.archive.named_files import SPEC, Records


@dataclass(frozen=True)
class Facts:
    """A run, its experiment's name, its trials' records by id, the words of the command that runs it again, and what
    that lacks, by name."""

    run: Run
    name: str
    records: Records
    again: tuple[str, ...]
    lacking: Mapping[str, str]

    @property
    def spec_name(self) -> str:
        """The spec's file in the archive."""
        return spec_name(self.name)

    @property
    def done(self) -> int:
        """Number of trials that are finished."""
        return sum(record["status"] == "done" for record in self.records.values())

    @property
    def in_all(self) -> int:
        """Number of trials that the run was to have. A baseline or ``repeats.until`` adds rounds, which count as
        planned."""
        return max(self.done, self.run.planned or 0)

    @property
    def trials_text(self) -> str:
        """``3 of 6 trials are finished: 2 VALID, 1 INVALID``, as the report counts them; those that failed, too."""
        jobs = f", with {len(self.run.trials)} jobs" if self.run.has_jobs else ""
        told = f"{jobs}: {verdicts(self.run)}" if self.records else ""
        return f"{self.done} of {self.in_all} trials are finished{told}"

    @property
    def is_whole(self) -> bool:
        """Whether all trials that were planned are finished."""
        return self.done == self.in_all

    @property
    def repeats(self) -> int:
        """Number of times that the cell was measured that was measured most often."""
        return 1 + max((record.get("repeat") or 0 for record in self.records.values()), default=0)

    @property
    def needed_repeats(self) -> int:
        """Number of repeats that a comparison of all its cells needs to decide something."""
        cells = {(trial.label, trial.batch, trial.at) for trial in self.run.trials}
        return least_repeats(len(METRICS) * len(cells))

    @property
    def took_s(self) -> float:
        """Seconds that the trials took together."""
        return sum(_seconds(record.get("duration_s")) for record in self.records.values())

    @property
    def ended_s(self) -> float:
        """Time at which the last trial began (s since 1970); 0 if none did."""
        return max((_moment_s(str(record.get("started") or "")) for record in self.records.values()), default=0.0)

    @property
    def ended(self) -> datetime:
        """Time at which the last trial began, as a date."""
        return datetime.fromtimestamp(self.ended_s, UTC)


def spec_name(experiment: str) -> str:
    """The spec's file in the archive, of an experiment's name."""
    return f"{SPEC}/{experiment}.yaml"


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _moment_s(text: str) -> float:
    """Read a time as records have it (s since 1970); 0 if it is none."""
    with suppress(ValueError, OverflowError):
        return max(0.0, datetime.fromisoformat(text).timestamp())
    return 0.0
