"""How does synchronisation grow with the number of workers?"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from testbed.analysis.numbers import ratios
from testbed.analysis.numbers.repeats import GST
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import MeasuredCell, Pair, Study, notes
from testbed.analysis.report.question import CROSS, Key, Panel, Question, column
from testbed.analysis.report.questions import sync


def against_workers(study: Study) -> Question | None:
    """GST against N: a line for each scheme that ran with several numbers of workers."""
    series = _series(study)
    if not series:
        return None
    cells = [cell for members in series.values() for cell in members]
    rows = [
        sync.row(cell, {"series": name, **plot.identity(cell, None, GST)})
        for name, members in series.items()
        for cell in members
    ]
    traces: list[plot.Trace] = []
    start = 0
    for i, (name, members) in enumerate(series.items()):
        traces += _worker_lines(name, i, start, members)
        start += len(members)
    frame = pd.DataFrame(rows)
    figure = plot.lines_figure(traces, "workers (N)", "GST (s)")
    figure["layout"]["xaxis"] |= plot.ticks(map(float, frame["workers"]))
    told = [(name, members, _grown(members)) for name, members in series.items()]
    keys = tuple(Key(name, *_look(i)) for i, name in enumerate(series))
    return Question(
        "gst-workers",
        "How does synchronisation grow with the number of workers?",
        frame,
        (Panel("gst-workers-0", "GST against N", plot.timed(figure, "y", frame["gst_s"].max())),),
        () if len(told) > 1 else tuple(_growth(*one) for one in told),
        f"{sync.DEFINED}{notes(cells, 'gst')} {words.INTERVALS}",
        (*keys, Key("theory", "", plot.THEORY)),
        tuple(_growth_row(*one) for one in told) if len(told) > 1 else (),
    )


def _series(study: Study) -> dict[str, list[MeasuredCell]]:
    """Collect, by name, the cells that differ in their number of workers and in nothing else that they are called
    by."""
    disturbed = {}
    for arm in study.run.resolved.get("arms") or ():
        told = json.dumps(arm.get("perturb") or [], sort_keys=True)
        disturbed[str(arm.get("label"))] = "" if told == "[]" else re.sub(r'["{}\[\]]', "", told)
    found: dict[tuple[Any, ...], list[MeasuredCell]] = {}
    for cell in filter(sync.is_measured, study.cells):
        trial = cell.trials[0]
        family = trial.topology.partition("(")[0]
        rest = tuple(item for item in cell.setting[1] if item[1] != str(cell.world))
        key = (_without(trial.scheme, cell.world), family, disturbed.get(cell.label, ""), cell.batch, rest)
        found.setdefault(key, []).append(cell)
    lines = {key: sorted(cells, key=lambda cell: cell.world) for key, cells in found.items()}
    lines = {key: cells for key, cells in lines.items() if len({cell.world for cell in cells}) == len(cells) > 1}
    several = len({key[3:] for key in lines}) > 1
    return {_called(key, cells, several): cells for key, cells in lines.items()}


def _called(key: tuple[Any, ...], cells: Sequence[MeasuredCell], several: bool) -> str:
    """Name a series: what labels have in common once N is left out, or else the scheme and the kind of network."""
    labels = {_without(cell.label, cell.world) for cell in cells}
    name = labels.pop() if len(labels) == 1 else f"{key[0]} on {key[1]}" + (f", {key[2]}" if key[2] else "")
    shown = {item[0] for item in key[4]}
    point = [f"{name} {value}" for name, value in cells[0].point.items() if name in shown]
    setting = ", ".join(([f"batch {cells[0].batch}"] if cells[0].batch else []) + point)
    return f"{name} ({setting})" if several and setting else name


def _without(text: str, world: int) -> str:
    """A name with N for the number of workers."""
    return re.sub(rf"(?<![\w.]){world}(?![\w.])", "N", text)


def _look(i: int) -> tuple[str, str]:
    names = tuple(plot.DASHES)
    return plot.PALETTE[i % len(plot.PALETTE)], plot.DASHES[names[i % len(names)]]


def _worker_lines(name: str, i: int, start: int, members: Sequence[MeasuredCell]) -> list[plot.Trace]:
    shade, dash = _look(i)[0], tuple(plot.DASHES)[i % len(plot.DASHES)]
    shared = {"type": "scatter", "rows": [start, start + len(members)], "x": column("workers")}
    measured = {
        "name": plot.text(name),
        "mode": "lines+markers",
        "y": column("gst_s"),
        "error_y": plot.error("gst_s"),
        "line": {"color": shade, "dash": dash, "width": 2},
        "marker": {"size": 7, "symbol": ["circle" if cell.valid_in(GST) else CROSS for cell in members]},
        "customdata": {"columns": ["series", "verdict"]},
        "hovertemplate": "%{customdata[0]} (%{customdata[1]})<br>N = %{x}: %{y:.4g} s<extra></extra>",
    }
    theory = {
        "mode": "lines",
        "y": column("gst_theory_s"),
        "line": {"color": shade, "dash": "4px,3px", "width": 1},
        "customdata": {"columns": ["series"]},
        "hovertemplate": "%{customdata[0]}, theory<br>N = %{x}: %{y:.4g} s<extra></extra>",
    }
    return [shared | measured, shared | theory]


def _grown(members: Sequence[MeasuredCell]) -> float | None:
    """GST with the most workers over that with the fewest, where the two can be compared."""
    found = Pair(members[0], members[-1]).over(ratios.GST)
    return found.value if found else None


def _theory(members: Sequence[MeasuredCell]) -> str:
    """Write the same ratio by theory; nothing where that is not known."""
    least, most = members[0].middle("gst_theory_s"), members[-1].middle("gst_theory_s")
    return words.ratio(most / least) if least and most else ""


def _growth(name: str, members: Sequence[MeasuredCell], grown: float | None) -> str:
    few, many = members[0].world, members[-1].world
    if grown is None:
        return f"{name}: GST with {many} workers cannot be compared with that with {few}{_doubt(members)}."
    theory = f"; by theory {_theory(members)}" if _theory(members) else ""
    return f"{name}: GST with {many} workers is {words.ratio(grown)} that with {few}{theory}{_doubt(members)}."


def _doubt(members: Sequence[MeasuredCell]) -> str:
    """Say which of the two ends are not VALID."""
    doubts = [f"{cell.doubt_in(GST)} with {cell.world}" for cell in (members[0], members[-1]) if cell.doubt_in(GST)]
    return f" ({' and '.join(doubts)})" if doubts else ""


def _growth_row(name: str, members: Sequence[MeasuredCell], grown: float | None) -> dict[str, str]:
    return {
        "Scheme": name,
        "Workers": f"{members[0].world} to {members[-1].world}",
        "GST grows": (words.UNKNOWN if grown is None else words.ratio(grown)) + _doubt(members),
        "By theory": _theory(members) or words.UNKNOWN,
    }
