"""Facts that the pages of an archive tell of its run, and the command that runs it again and compares, typed in the
archive's folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from testbed.analysis.comparing.compare import least_repeats
from testbed.analysis.comparing.measured import MACHINE, METRICS, conditions
from testbed.analysis.recorded import Run
from testbed.analysis.report.words import verdicts
from testbed.comparison.archive.named_files import RUN, SPEC, Records
from testbed.run_directory.resolved import FOUND, chosen
from testbed.spec import Source


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


OUT = "again"
"""The directory of the second run."""
OF_MACHINES = (*MACHINE, "packages", "sysctls", "devices", "hosts", "impaired_by")
"""Conditions of a comparison in which somebody else's machine may differ."""


def command_again(run: Run, records: Records, source: Source) -> tuple[str, ...]:
    """Return the words of the command that runs the spec again. The settings of the second run are those of the first
    one, also those that were chosen for the first one's machine."""
    compared, part = is_compared(run), run.resolved.get("part")
    settings = [*source.overrides, *_chosen(run.resolved)]
    if compared and "repeats" not in source.spec.model_fields_set:  # a run with a baseline would have ten
        settings.append(f"repeats={source.spec.least_repeats}")
    return (
        *("testbed", "run", spec_name(source.spec.name)),
        *(word for setting in settings for word in ("--set", setting)),
        *(("--part", f"{part[0]}/{part[1]}") if part else _only(run, records, source)),
        *(("--found", RUN) if run.resolved.get(FOUND) else ()),
        *(("--baseline", RUN, *(word for name in _allowed(run) for word in ("--allow", name))) if compared else ()),
        *("--out", OUT),
    )


def is_simulated(run: Run) -> bool:
    """Whether a model's numbers are in the run, which no comparison counts."""
    return any(trial.simulated for trial in run.trials)


def is_compared(run: Run) -> bool:
    """Whether a comparison with the run can say anything: only VALID numbers count."""
    return not is_simulated(run) and any(trial.valid_in(name) for trial in run.finished for name in METRICS)


def _chosen(resolved: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings that ``fit`` stood for; with ``--found``, a run takes it from there."""
    if resolved.get(FOUND):
        return
    fitted = chosen(resolved)
    if fitted.scale is not None:
        yield f"workload.scale={fitted.scale:.9g}"
    if fitted.pace_s:
        paces = ", ".join(f"{batch}: {pace_s:.9g} s" for batch, pace_s in fitted.pace_s.items())
        yield f"workload.compute.pace={{{paces}}}"


def _only(run: Run, records: Records, source: Source) -> list[str]:
    """The first trials of the cells, where the run was made of some cells alone."""
    cells = len(source.grid.cells)
    if run.planned is None or run.planned >= cells * source.spec.least_repeats:
        return []
    firsts = [name for name, record in records.items() if not record.get("repeat")]
    return [word for name in firsts for word in ("--only", name)]


def _allowed(run: Run) -> list[str]:
    known = {name.split(".")[0] for name in conditions(run.environment, run.resolved)}
    return [name for name in OF_MACHINES if name in known]
