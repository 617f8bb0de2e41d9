"""The command that runs an archived experiment again and compares, typed in the archive's folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from testbed.analysis.comparing.measured import MACHINE, METRICS, conditions
from testbed.analysis.recorded import Run
from testbed.comparison.archive.contents import RUN
from testbed.comparison.archive.facts import spec_name
from testbed.comparison.archive.named_files import Records
from testbed.run_directory import stored
from testbed.run_directory.kept_spec import without_changes
from testbed.run_directory.resolved import FOUND, chosen
from testbed.spec import Source

OUT = "again"
"""The directory of the second run."""
OF_MACHINES = (*MACHINE, "packages", "sysctls", "devices", "hosts", "impaired_by")
"""Conditions of a comparison in which somebody else's machine may differ."""


def command(run: Run, records: Records, source: Source) -> tuple[str, ...]:
    """Return the words of the command that runs the spec again. The settings of the second run are those of the first
    one, also those that were chosen for the first one's machine."""
    compared = is_compared(run)
    settings = [*source.overrides, *_chosen(run.resolved), *(_repeats(source) if compared else ())]
    return (
        *("testbed", "run", spec_name(source.spec.name)),
        *(word for setting in settings for word in ("--set", setting)),
        *_part(run.resolved),
        *(() if run.resolved.get("part") else _only(run, records, source)),
        *(("--found", RUN) if run.resolved.get(FOUND) else ()),
        *(_baseline(run) if compared else ()),
        *("--out", OUT),
    )


def spec_text(run: Path) -> str:
    """The spec as it was written, without what ``--set`` changed.

    Raises:
        OutputError, SpecError: it cannot be read.
    """
    return without_changes(stored.spec_text(run))


def is_simulated(run: Run) -> bool:
    """Whether a model's numbers are in the run, which no comparison counts."""
    return any(trial.simulated for trial in run.trials)


def is_compared(run: Run) -> bool:
    """Whether a comparison with the run can say anything: only VALID numbers count."""
    return not is_simulated(run) and any(trial.valid_in(name) for trial in run.finished for name in METRICS)


def _baseline(run: Run) -> tuple[str, ...]:
    return "--baseline", RUN, *(word for name in _allowed(run) for word in ("--allow", name))


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


def _repeats(source: Source) -> list[str]:
    """A run with a baseline would have ten repeats."""
    return [] if "repeats" in source.spec.model_fields_set else [f"repeats={source.spec.least_repeats}"]


def _part(resolved: Mapping[str, Any]) -> tuple[str, ...]:
    part = resolved.get("part")
    return ("--part", f"{part[0]}/{part[1]}") if part else ()


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
