"""Common parts of figures: colours, axes, and the marks for a row or a line an arm, as Plotly describes them.

Text and grid lines take their colours from the page's style sheet, so that light, dark and print need no second figure.
"""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any

import pandas as pd

from testbed.analysis import verdicts
from testbed.analysis.recorded import Run
from testbed.analysis.report import words
from testbed.analysis.report.cells import Axis, Group, MeasuredCell
from testbed.analysis.report.question import CROSS, Key, Panel, column, rounded

Trace = dict[str, Any]
Figure = dict[str, Any]

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8f6b3d", "#7a68b3", "#9aa02c")
"""Okabe and Ito's colours, which colour-blind readers tell apart, without the red that means INVALID here."""
DASHES = {
    "solid": "",
    "dash": "7 4",
    "dot": "2 3",
    "dashdot": "7 3 2 3",
    "longdash": "12 4",
    "longdashdot": "12 3 2 3",
}
"""Plotly's names and SVG's lengths; six to eight colours: together they tell 24 arms apart."""
COMPUTE = "#a7aeb8"
INVALID = "#d9453a"
SIMULATED = "#ac7413"
"""As tables have it: no doubt of a measurement, so not red. Between those of a light page and of a dark one, as figures
have one colour in both."""
THEORY = "4 3"
HEAT = [[0.0, "#e9edf2"], [0.15, "#f0d9a0"], [0.5, "#f0a020"], [1.0, "#d62839"]]
"""Grey, amber, red, as in drawings of networks."""

_MOST_TICKS = 8
_MINUTES_FROM_S = 600.0
_LENGTHS = {"x": ("x", "base", "lowerfence", "q1", "median", "q3", "upperfence"), "y": ("y",)}
"""Keys that a trace has along an axis, but for its intervals."""
_ROW_PX, _LINE_PX = 46, 17
_LINES_PX = 320
_MARGIN = {"l": 8, "r": 12, "t": 8, "b": 44}
_LABEL_WIDTH = 20
_ROOM = 0.06
_LAST_TEXT = 0.85
"""Share of an axis at which a text begins at the latest."""
FARTHEST = 2.0
"""An axis has room for intervals up to so many times the largest value; those of two repeats may be endless."""
_ROOM_FOR_TEXT = 1.3
"""The axis of a bar chart is this much longer than its longest bar, at whose end there is a number."""


def colour(run: Run, label: str) -> str:
    """The colour of an arm, the same everywhere."""
    return PALETTE[run.labels.index(label) % len(PALETTE)]


def dash(run: Run, label: str) -> str:
    """The dash of an arm's line, in Plotly's terms."""
    return tuple(DASHES)[run.labels.index(label) % len(DASHES)]


def dashes(run: Run) -> tuple[Key, ...]:
    """A legend of the arms' lines."""
    return tuple(Key(label, colour(run, label), DASHES[dash(run, label)]) for label in run.labels)


def legend(run: Run, along: Axis | None) -> tuple[Key, ...]:
    """A legend of the arms: of their lines along an axis, else of their rows."""
    return dashes(run) if along else tuple(Key(label, colour(run, label)) for label in run.labels)


def identity(cell: MeasuredCell, along: Axis | None, number: str, without: Collection[str] = ()) -> dict[str, Any]:
    """The columns that every table of cells begins with; trials and verdict are those of a number. Tables of single
    trials are ``without`` some of them."""
    point: dict[str, Any] = dict(cell.point)
    if along and along.key in point:
        point = {(along.title if key == along.key else key): value for key, value in point.items()}
        point[along.title] = along.at(cell)
    batch = {"batch": cell.batch} if cell.batch else {}
    known = {"arm": cell.label, **batch, **point, "workers": cell.world}
    known |= {"trials": len(cell.counted(number)), "verdict": cell.verdict_in(number)}
    return {name: value for name, value in known.items() if name not in without}


def panels(
    name: str, groups: Sequence[Group], draw: Callable[[Group, int], Figure], what: str = ""
) -> tuple[Panel, ...]:
    """A panel for each group; ``draw`` is told with which row of the table, a row for each cell, the group begins.

    ``what`` is drawn stands in its caption, where a group has several panels.
    """
    starts = accumulate((len(group.cells) for group in groups), initial=0)
    captions = [f"{group.title}: {what}" if what else group.title for group in groups]
    drawn = [draw(group, start) for group, start in zip(groups, starts, strict=False)]  # the last is where it ends
    return tuple(Panel(f"{name}-{i}", *one) for i, one in enumerate(zip(captions, drawn, strict=True)))


def bar(rows: tuple[int, int], y: int, value: str, shade: str, valid: bool, what: str, **more: Any) -> Trace:
    """One part of a row's bar, hatched where its numbers are not to be believed."""
    hatch = {"shape": "/", "fillmode": "overlay", "fgcolor": "#ffffff", "fgopacity": 0.7, "solidity": 0.35}
    return {
        "type": "bar",
        "orientation": "h",
        "width": 0.62,
        "rows": list(rows),
        "x": column(value),
        "y": [y],
        "marker": {"color": shade, "pattern": {} if valid else hatch},
        "customdata": {"columns": ["arm"]},
        "hovertemplate": f"%{{customdata[0]}}<br>{what} %{{x:.4g}} s<extra></extra>",
        **more,
    }


def number(seconds: float, end: float, y: int, span: tuple[float, float]) -> Trace:
    """A row's time in words, beyond the end of its bar and interval, as long as that leaves it room on the axis."""
    return {
        "type": "scatter",
        "mode": "text",
        "x": [rounded(min(end, _LAST_TEXT * span[1]))],
        "y": [y],
        "text": [f"  {words.seconds(seconds)}"],
        "textposition": "middle right",
        "hoverinfo": "skip",
        "cliponaxis": False,
    }


def dot(rows: tuple[int, int], y: int, value: str, shade: str, valid: bool, what: str) -> Trace:
    """A row's value as a mark with its interval."""
    return {
        "type": "scatter",
        "mode": "markers",
        "rows": list(rows),
        "x": column(value),
        "y": [y],
        "error_x": error(value),
        "marker": {"color": shade, "size": 10, "symbol": "circle" if valid else CROSS},
        "customdata": {"columns": ["arm"]},
        "hovertemplate": f"%{{customdata[0]}}<br>{what} %{{x:.3f}}<extra></extra>",
    }


def lines(run: Run, group: Group, first: int, along: Axis, value: str, what: str, number: str) -> list[Trace]:
    """A line an arm over the axis, with intervals; rows of the table begin with ``first``. Marks are crosses where
    ``number`` is not VALID."""
    traces: list[Trace] = []
    start = first
    for label, members in groupby(group.cells, key=lambda cell: cell.label):
        cells = list(members)
        rows = [start, start + len(cells)]
        start += len(cells)
        traces.append(
            {
                "type": "scatter",
                "name": text(label),
                "mode": "lines+markers",
                "rows": rows,
                "x": column("batch" if along.key == "batch" else along.title),
                "y": column(value),
                "error_y": error(value),
                "line": {"color": colour(run, label), "dash": dash(run, label), "width": 2},
                "marker": {
                    "size": [7 if cell.valid_in(number) else 10 for cell in cells],
                    "symbol": ["circle" if cell.valid_in(number) else CROSS for cell in cells],
                    "opacity": 1,  # marks of several sizes are drawn as bubbles: translucent, with a border
                    "line": {"width": 0},
                },
                "customdata": {"columns": ["arm", "verdict"]},
                "hovertemplate": f"%{{customdata[0]}} (%{{customdata[1]}})<br>{what} %{{y:.4g}}<extra></extra>",
            }
        )
    return traces


def curve(run: Run, label: str, rows: Sequence[int], x: str, y: str, shape: str = "", **more: Any) -> Trace:
    """An arm's line over two columns, without intervals; ``more`` has its tooltip and marks."""
    line = {"color": colour(run, label), "dash": dash(run, label), "width": 2} | ({"shape": shape} if shape else {})
    trace = {
        "type": "scatter",
        "name": text(label),
        "mode": "lines",
        "rows": list(rows),
        "x": column(x),
        "y": column(y),
    }
    return trace | {"line": line} | more


def stacked(tables: Sequence[pd.DataFrame]) -> tuple[pd.DataFrame, list[tuple[int, int]]]:
    """One table of all, and of each with which row it begins, and which comes after its last."""
    return pd.concat(tables, ignore_index=True), list(pairwise(accumulate(map(len, tables), initial=0)))


def theory_lines(run: Run, group: Group, first: int, along: Axis, value: str, number: str) -> list[Trace]:
    """Draw what theory says, as a thin dashed line in each arm's colour; of an arm with one point, as a dash there."""
    traces = lines(run, group, first, along, value, "theory", number)
    for trace in traces:
        del trace["error_y"], trace["marker"], trace["name"]
        trace |= {"mode": "lines", "line": trace["line"] | {"dash": "4px,3px", "width": 1}}
        if trace["rows"][1] - trace["rows"][0] == 1:  # a line needs two
            look = {"color": trace["line"]["color"], "width": 1}
            trace |= {"mode": "markers", "marker": {"symbol": "line-ew-open", "size": 16, "line": look}}
    return traces


def spans(rows: Sequence[int], begins: str, ends: str, shade: str | list[str], hover: str, **more: Any) -> Trace:
    """Bars along time, from one column to another, each in the row of the figure that the column ``row`` has. A tooltip
    is ``hover``, with the columns ``told`` of ``more``, and the times."""
    told = more.pop("told")
    return {
        "type": "bar",
        "orientation": "h",
        "rows": list(rows),
        "base": column(begins),
        "x": column(ends, minus=begins),
        "y": column("row"),
        "width": 0.8,
        "marker": {"color": shade, "line": {"width": 0}},
        "customdata": {"columns": told},
        "hovertemplate": f"{hover}%{{x:.4g}} s from %{{base:.4g}} s<extra></extra>",
        **more,
    }


def spans_figure(
    traces: Sequence[Trace], labels: Sequence[str], x_title: str, span: tuple[float, float], height: int, **more: Any
) -> Figure:
    """A figure of bars along time, a row for each label, the first on top; ``more`` is for its layout."""
    count = len(labels)
    axis = {"tickvals": list(range(count)), "ticktext": list(labels), "range": [count - 0.4, -0.6], "showgrid": False}
    layout = {
        "xaxis": {"title": {"text": x_title}, "range": [rounded(value) for value in span]},
        "yaxis": axis,
        "shapes": [],
    }
    return finished(traces, layout | more, height)


def heat(rows: Sequence[int], x: str, y: str, z: str, unit: str, **more: Any) -> Trace:
    """A heat map of one column over two others, with a scale of its unit."""
    return {
        "type": "heatmap",
        "rows": list(rows),
        **{"x": column(x), "y": column(y), "z": column(z)},
        "colorscale": HEAT,
        "colorbar": {"title": {"text": unit}, "thickness": 10, "outlinewidth": 0},
        **more,
    }


def categories(names: Iterable[str], **more: Any) -> dict[str, Any]:
    """An axis of names in their order."""
    order = [text(name) for name in names]
    return {"type": "category", "categoryorder": "array", "categoryarray": order, "showgrid": False, **more}


def error(value: str) -> dict[str, Any]:
    """The interval around a column's values, from the columns beside it."""
    return {
        "type": "data",
        "array": column(f"{value}_high", minus=value),
        "arrayminus": column(value, minus=f"{value}_low"),
        "thickness": 1.5,
        "width": 4,
    }


def rows_figure(
    traces: Sequence[Trace],
    cells: Sequence[MeasuredCell],
    x_title: str,
    span: tuple[float, float],
    number: str | Callable[[MeasuredCell], str],
    *,
    shapes: Sequence[Any] = (),
) -> Figure:
    """A figure with a row for each cell, the first on top, over the span of values; rows are marked where ``number``,
    which may depend on the cell, is INVALID."""
    count = len(cells)
    judged = [(cell, number if isinstance(number, str) else number(cell)) for cell in cells]
    labels = [tick(cell.label, "" if cell.valid_in(name) else cell.verdict_in(name)) for cell, name in judged]
    layout = {
        "barmode": "stack",
        "xaxis": {"title": {"text": x_title}, "range": [rounded(value) for value in span], "nticks": 7},
        "yaxis": {
            "tickvals": list(range(count)),
            "ticktext": labels,
            "range": [count - 0.5, -0.5],
            "showgrid": False,
        },
        "shapes": list(shapes),
    }
    most_lines = max((label.count("<br>") + 1 for label in labels), default=1)
    row_px = max(_ROW_PX, _LINE_PX * (most_lines + 0.4))
    return finished(traces, layout, round(row_px * count) + _MARGIN["t"] + _MARGIN["b"])


def lines_figure(
    traces: Sequence[Trace],
    x_title: str,
    y_title: str,
    *,
    x_from_0: bool = False,
    y_from_0: bool = True,
    shapes: Sequence[Any] = (),
) -> Figure:
    """A figure of lines over their axes, which may have to begin at 0."""
    modes = {True: "tozero", False: "normal"}
    layout = {
        "xaxis": {"title": {"text": text(x_title)}, "rangemode": modes[x_from_0]},
        "yaxis": {"title": {"text": y_title}, "rangemode": modes[y_from_0]},
        "shapes": list(shapes),
    }
    return finished(traces, layout, _LINES_PX)


def along_figure(
    traces: Sequence[Trace], along: Axis, cells: Sequence[MeasuredCell], y_title: str, **more: Any
) -> Figure:
    """A figure of lines over an axis, whose ticks are at its values if they are few; ``more`` as in
    :func:`lines_figure`."""
    figure = lines_figure(traces, along.title, y_title, **more)
    figure["layout"]["xaxis"] |= ticks(along.at(cell) for cell in cells)
    return figure


def ticks(values: Iterable[float]) -> dict[str, Any]:
    """Place an axis' ticks: at the values, if there is room between them; else, if they are whole numbers, at whole
    numbers."""
    known = sorted(set(values))
    gaps = [after - before for before, after in pairwise(known)]
    if 1 < len(known) <= _MOST_TICKS and min(gaps) * _MOST_TICKS >= known[-1] - known[0]:
        return {"tickvals": known}
    return whole(known[-1] - known[0]) if all(value.is_integer() for value in known) else {}


def whole(span: float) -> dict[str, Any]:
    """Ticks of an axis of counts over this span: at whole numbers."""
    step = 10 ** max(0, math.floor(math.log10(max(span, 1) / _MOST_TICKS)))
    step = next(factor * step for factor in (1, 2, 5, 10, 20, 50) if factor * step * _MOST_TICKS >= span)
    return {"tick0": 0, "dtick": step, "tickformat": ",d"}


def timed(figure: Figure, letter: str, longest_s: float) -> Figure:
    """The figure with its times along an axis, ``x`` or ``y``, which are in seconds, in a unit that suits the longest
    of all panels."""
    unit, factor = ("ms", 1e3) if longest_s < 1 else ("min", 1 / 60) if longest_s >= _MINUTES_FROM_S else ("s", 1.0)
    if factor == 1.0:
        return figure
    axis = figure["layout"][f"{letter}axis"]
    axis["title"]["text"] = axis["title"]["text"].replace("(s)", f"({unit})")
    if "range" in axis:
        axis["range"] = _times(axis["range"], factor)
    for shape in figure["layout"]["shapes"]:
        if f"{letter}ref" not in shape:
            shape |= {end: shape[end] * factor for end in (f"{letter}0", f"{letter}1")}
    for trace in figure["data"]:
        trace |= {key: _times(trace[key], factor) for key in _LENGTHS[letter] if key in trace}
        error = trace.get(f"error_{letter}", {})
        error |= {key: _times(error[key], factor) for key in ("array", "arrayminus") if key in error}
        if "hovertemplate" in trace:
            told = re.sub(rf"(%\{{(?:{letter}|base)[^}}]*\}}) s\b", rf"\1 {unit}", trace["hovertemplate"])
            trace["hovertemplate"] = told.replace(", s:", f", {unit}:")
    return figure


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, dict):
        return value | {"times": factor}
    return [None if one is None else rounded(one * factor) for one in value]


def finished(traces: Sequence[Trace], layout: dict[str, Any], height: int) -> Figure:
    """Finish a figure with the layout that all figures share."""
    shared = {
        "height": height,
        "margin": _MARGIN,
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif", "size": 13},
        "hoverlabel": {"align": "left"},
    }
    for name in ("xaxis", "yaxis"):
        axis = layout.get(name, {})
        axis |= {"automargin": True, "zeroline": False, "gridcolor": "#dfe3e8"}
        axis["ticklabelstandoff"] = 5  # else the two zeros of an origin touch
        if "title" in axis:
            axis["title"] |= {"standoff": 10, "font": {"size": 12}}
        layout[name] = axis
    nameless = {"showlegend": False}  # a legend is only in what is downloaded; the page has its own
    return {"data": [trace if "name" in trace else trace | nameless for trace in traces], "layout": layout | shared}


def upright(x: float, y0: float, y1: float, width: float = 2) -> dict[str, Any]:
    """A vertical line in a figure's own units."""
    x = float(f"{x:.6g}")
    return {"type": "line", "x0": x, "x1": x, "y0": y0, "y1": y1, "line": {"dash": "4px,3px", "width": width}}


def level(y: float) -> dict[str, Any]:
    """A dashed line across the figure."""
    line = {"dash": "4px,3px", "width": 1}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}


def from_zero(values: Iterable[float | None], room: float = _ROOM_FOR_TEXT) -> tuple[float, float]:
    """An axis from 0 to beyond the largest value."""
    return 0.0, room * max((value for value in values if value is not None), default=0.0) or 1.0


def from_zero_with_intervals(frame: pd.DataFrame, name: str) -> tuple[float, float]:
    """An axis from 0 to beyond the ends of a column's intervals, where the numbers stand."""
    most = FARTHEST * frame[name].max()
    return from_zero([*frame[name], *(min(high, most) for high in frame[f"{name}_high"].dropna())])


def around(values: Iterable[float | None], least: float = 0.01) -> tuple[float, float]:
    """An axis from below the smallest to beyond the largest value."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    room = max(_ROOM * (high - low), least)
    return low - room, high + room


def tick(label: str, mark: str = "") -> str:
    """A row's label in at most two lines, with a mark in colour below."""
    lines = [text(line) for line in _wrapped(label)]
    colour = SIMULATED if mark == verdicts.SIMULATED else INVALID
    return "<br>".join(lines + ([f'<b><span style="color:{colour}">{mark}</span></b>'] if mark else []))


def text(label: str) -> str:
    """Plotly reads labels as HTML; a label from a spec is text."""
    return html.escape(label)


def faint(shade: str) -> str:
    """A colour to fill what has a border of it."""
    red, green, blue = (int(shade[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"


def _wrapped(label: str) -> list[str]:
    """Wrap a label to at most two lines, which may also break after a comma or bracket: names of topologies have no
    spaces."""
    breakable = re.sub(r"([,(])(?=\S)", "\\1\v", label)
    lines = textwrap.wrap(breakable, _LABEL_WIDTH, max_lines=2, placeholder=" …", replace_whitespace=False)
    return [line.replace("\v", "") for line in lines]
