"""Series as text for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from testbed.analysis.comparing.measured import NAMES, value_text
from testbed.analysis.history.changes import FEWEST
from testbed.analysis.history.series import Series

BARS = "▁▂▃▄▅▆▇█"


def text(found: Sequence[Series], unread: Sequence[str]) -> str:
    """A block for each series: how it went, and where it changed."""
    lines = [line for one in found for line in [*_block(one), ""]]
    short = sum(map(_is_short, found))
    few = [f"too few runs to see a change in {short} series: {FEWEST} are the least"] if short else []
    return "\n".join([*lines, *few, *(f"left out: {problem}" for problem in unread)]).rstrip()


def as_json(found: Sequence[Series], unread: Sequence[str]) -> dict[str, Any]:
    """Return the series and the runs that were not read as JSON, for programs."""
    return {"series": [_entry(one) for one in found], "not_read": list(unread)}


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
    changed, few = sum(bool(one.changes) for one in found), sum(_is_short(one) for one in found)
    if few and few == len(found):
        return f"Too few runs to tell whether any of {few} series changed"
    of = f"{changed or 'None'} of {len(found) - few} series changed"
    return f"{of}; {few} more {'have' if few > 1 else 'has'} too few runs to tell" if few else of


def told(series: Series) -> list[str]:
    """List a series' changes, or say that there are none, or can be none yet."""
    few = f"too few runs to see a change: {FEWEST} are the least"
    return change_texts(series) or [few if _is_short(series) else "no change"]


def _is_short(series: Series) -> bool:
    return len(series.points) < FEWEST


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
    lines += [f"  {'changed: ' if series.changes else ''}{each}" for each in told(series) if not _is_short(series)]
    for point in series.points:
        lines += [f"  {point.name} ({point.started[:16]}) ran under other conditions: {each}" for each in point.changed]
    return lines


def _entry(series: Series) -> dict[str, Any]:
    return {
        "experiment": series.experiment,
        "label": series.cell.label,
        "batch": series.cell.batch,
        "point": dict(series.cell.point),
        "metric": series.metric,
        "runs": [
            {**vars(point), "changed": list(point.changed), "level": level}
            for point, level in zip(series.points, series.levels, strict=True)
        ],
        "changes": [
            {
                "run": series.points[change.position].name,
                "started": series.points[change.position].started,
                "ratio": change.ratio,
            }
            for change in series.changes
        ],
    }
