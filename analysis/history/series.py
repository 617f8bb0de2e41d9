"""From a directory of runs and baselines to a series for each experiment, cell and metric; series as text and JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from testbed.analysis.cell import Cell
from testbed.analysis.comparing.conditions import differences, schemes
from testbed.analysis.comparing.measured import NAMES, Side, read, value_text
from testbed.analysis.history.changes import FEWEST, change_points
from testbed.analysis.numbers import statistics
from testbed.base.bounded_json import parse_json
from testbed.base.errors import OutputError
from testbed.base.listing import shortened
from testbed.base.printable import printable
from testbed.files.foreign import read_bytes

MARK = b'"baseline"'
"""A JSON file with this may be a baseline."""
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Point:
    """One run: the median of the trials that are VALID in the metric, between which values it lies with 95 %, and how
    many trials these are.

    ``changed`` names the conditions that differ from the run before, with their values.
    """

    name: str
    started: str
    value: float
    low: float | None
    high: float | None
    trials: int
    changed: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """With the point at ``position`` the metric became ``ratio`` times as large as in the segment before."""

    position: int
    ratio: float


@dataclass(frozen=True)
class Series:
    """A metric of one cell over runs in the order of time; ``levels`` has each point's segment's median."""

    experiment: str
    cell: Cell
    metric: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...]
    levels: tuple[float, ...]

    @property
    def is_short(self) -> bool:
        """Whether it has too few runs to see a change."""
        return len(self.points) < FEWEST


def collect(folder: Path) -> tuple[list[Side], list[str]]:
    """Every run directory and baseline in ``folder`` or below in the order of time, and what cannot be read, with why.

    A run and the baseline that was made of it are one measurement, and there once: as two, they would look like runs
    that agree to the last digit, and what differs from them like a change. So are a merged run and its parts.

    Raises:
        OutputError: there is no such directory, or neither a run nor a baseline in it.
    """
    if not folder.is_dir():
        raise OutputError(f"{folder}: is not a directory", fix="give a directory that has runs in it")
    found, unread = [], []
    for path in _sources(folder):
        try:
            found.append(replace(read(path), name=printable(str(path.relative_to(folder) if path != folder else path))))
        except OutputError as error:
            unread.append(error.problem)
    if not found and not unread:
        raise OutputError(f"{folder}: holds neither a run nor a baseline", fix="testbed run SPEC writes into runs/")
    found = [side for side in found if side.trials]
    found.sort(key=lambda side: (min(trial.started for trial in side.trials), side.name))
    seen: set[tuple[str, str, str]] = set()
    repeated = set()
    for side in sorted(found, key=lambda side: -len(side.trials)):
        trials = {(side.experiment, trial.id, trial.started) for trial in side.trials}
        if trials <= seen:
            repeated.add(id(side))
        seen |= trials
    return [side for side in found if id(side) not in repeated], unread


def series(sides: list[Side], metric: str) -> list[Series]:
    """A metric's series, by experiment and cell in the order in which they first came."""
    by_experiment: dict[str, list[Side]] = {}
    for side in sides:
        by_experiment.setdefault(side.experiment, []).append(side)
    found = []
    for experiment, members in by_experiment.items():
        for cell in dict.fromkeys(cell for side in members for cell in side.cells):
            points = tuple(_points(members, cell, metric))
            if points:
                values = [point.value for point in points]
                cuts = change_points(values)
                edges = [0, *cuts, len(values)]
                medians = [float(np.median(values[a:b])) for a, b in pairwise(edges)]
                changes = tuple(Change(cut, medians[i + 1] / medians[i]) for i, cut in enumerate(cuts))
                levels = [level for level, (a, b) in zip(medians, pairwise(edges), strict=True) for _ in range(b - a)]
                found.append(Series(experiment, cell, metric, points, changes, tuple(levels)))
    return found


def without(sides: Sequence[Side], metric: str) -> list[str]:
    """Say of which cells runs have no VALID trial in the metric, so that they are no point of a series."""
    told = []
    for side in sides:
        valid = {trial.cell for trial in side.trials if trial.valid_in(metric)}
        cells = [str(cell) for cell in side.cells if cell not in valid]
        if cells:
            told.append(f"{side.name}: no VALID trial in {NAMES[metric]}: {shortened(cells, 4, '; ')}")
    return told


def _points(sides: list[Side], cell: Cell, metric: str) -> Iterator[Point]:
    before: Side | None = None
    for side in sides:
        valid = [trial for trial in side.trials if trial.cell == cell and trial.valid_in(metric)]
        values = [trial.values[metric] for trial in valid if trial.values[metric] > 0]
        if not values:
            continue
        middle, arms = statistics.median(values), [(cell.label, cell.label)]
        differ = (*differences(before, side, arms), *schemes(before, side, arms)) if before else ()
        changed = tuple(f"{one.name}: {one.base}, now {one.new}" for one in differ)
        low, high = (middle.low, middle.high) if len(values) > 1 else (None, None)
        yield Point(side.name, min(trial.started for trial in valid), middle.value, low, high, len(values), changed)
        before = side


def _sources(folder: Path) -> Iterator[Path]:
    """Run directories, without what is in them, and files that may be baselines; in the order of names. Links are not
    followed: somebody else may have made them."""
    for place, folders, files in os.walk(folder):
        if "resolved.json" in files:
            folders.clear()
            yield Path(place)
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(place) / name
            if name.endswith(".json") and _is_baseline(path):
                yield path


def _is_baseline(path: Path) -> bool:
    """Whether it is JSON that calls itself one; other JSON files may lie beside runs."""
    try:
        content = read_bytes(path, below=path.parent)
        return MARK in content and "baseline" in parse_json(content)
    except (OSError, ValueError, TypeError):
        return False


def text(found: Sequence[Series], unread: Sequence[str]) -> str:
    """A block for each series: how it went, and where it changed."""
    lines = [line for one in found for line in [*_block(one), ""]]
    short = sum(one.is_short for one in found)
    few = [f"too few runs to see a change in {short} series: {FEWEST} are the least"] if short else []
    return "\n".join([*lines, *few, *(f"left out: {problem}" for problem in unread)]).rstrip()


def as_json(found: Sequence[Series], unread: Sequence[str]) -> dict[str, Any]:
    """Return the series and the runs that were not read as JSON, for programs."""
    entries = [
        {
            "experiment": one.experiment,
            "label": one.cell.label,
            "batch": one.cell.batch,
            "point": dict(one.cell.point),
            "metric": one.metric,
            "runs": [
                {**vars(point), "changed": list(point.changed), "level": level}
                for point, level in zip(one.points, one.levels, strict=True)
            ],
            "changes": [
                {"run": point.name, "started": point.started, "ratio": change.ratio}
                for change in one.changes
                for point in [one.points[change.position]]
            ],
        }
        for one in found
    ]
    return {"series": entries, "not_read": list(unread)}


def title(series: Series) -> str:
    """``quickstart: ring, batch 16: GST``."""
    return f"{series.experiment}: {series.cell}: {NAMES[series.metric]}"


def change_texts(series: Series) -> list[str]:
    """A sentence for each change."""
    return [
        f"{100 * (change.ratio - 1):+.1f} % with {series.points[change.position].name} "
        f"({series.points[change.position].started[:16]})"
        for change in series.changes
    ]


def heading(found: Sequence[Series]) -> str:
    """Say how many series changed, and of how many that cannot be told yet."""
    changed, few = sum(bool(one.changes) for one in found), sum(one.is_short for one in found)
    if few and few == len(found):
        return f"Too few runs to tell whether any of {few} series changed"
    of = f"{changed or 'None'} of {len(found) - few} series changed"
    return f"{of}; {few} more {'have' if few > 1 else 'has'} too few runs to tell" if few else of


def told(series: Series) -> list[str]:
    """List a series' changes, or say that there are none, or can be none yet."""
    few = f"too few runs to see a change: {FEWEST} are the least"
    return change_texts(series) or [few if series.is_short else "no change"]


def bars(values: Sequence[float]) -> str:
    """A bar for each value, from the least to the greatest; the same height for all where they are equal."""
    low, high = min(values), max(values)
    if high <= low:
        return BARS[3] * len(values)
    return "".join(BARS[round((value - low) / (high - low) * (len(BARS) - 1))] for value in values)


def _block(series: Series) -> list[str]:
    values = [point.value for point in series.points]
    least, most, last = (value_text(series.metric, value) for value in (min(values), max(values), values[-1]))
    span = f"{len(values)} runs, {least} to {most}, last {last}" if len(values) > 1 else f"1 run, {last}"
    lines = [title(series), f"  {bars(values)}  {span}"]
    lines += [f"  {'changed: ' if series.changes else ''}{each}" for each in told(series) if not series.is_short]
    for point in series.points:
        lines += [f"  {point.name} ({point.started[:16]}) ran under other conditions: {each}" for each in point.changed]
    return lines
