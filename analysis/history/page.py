"""Series as one page that needs no network: a figure for each, and a table of the changes. Same input, same bytes."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go
import plotly.io as pio
from markupsafe import Markup

from testbed.analysis.comparing.measured import NAMES, value_text
from testbed.analysis.history.series import Point, Series, change_texts, heading, title, told
from testbed.analysis.html import plotly, source, template
from testbed.base.listing import counted
from testbed.files.writing import write_bytes

LINE, LEVEL, CHANGE = "#0072b2", "#e69f00", "#d9453a"
"""Okabe and Ito's blue and orange, and the red that marks what to look at."""
UNITS = {"gst": "GST (s)", "jct": "JCT (s)", "throughput": "samples/s"}
HEIGHT_PX = 300


@dataclass(frozen=True)
class Figure:
    """One Plotly figure: the id of its place in the page, its caption, its description as JSON, what is seen in it."""

    id: str
    caption: str
    json: Markup
    seen: str


def write(found: Sequence[Series], unread: Sequence[str], out: Path) -> None:
    """Write the page.

    Raises:
        OutputError, DiskFullError: it cannot be written.
    """
    write_bytes(out, render(found, unread).encode())


def render(found: Sequence[Series], unread: Sequence[str]) -> str:
    """The page. Whatever comes from runs is escaped."""
    return template("testbed.analysis.history", "history.html").render(
        heading=heading(found),
        figures=[_figure(i, one) for i, one in enumerate(found)],
        changes=[(title(one), each) for one in found for each in change_texts(one)],
        conditions=[(title(one), point) for one in found for point in one.points if point.changed],
        unread=unread,
        style=source("testbed.analysis.history", "history.css"),
        plotly=plotly(),
    )


def _figure(number: int, series: Series) -> Figure:
    figure = go.Figure()
    order, changed = list(range(len(series.points))), {change.position for change in series.changes}
    figure.add_scatter(
        x=order,
        y=[point.value for point in series.points],
        mode="lines+markers",
        name=NAMES[series.metric],
        line={"color": LINE, "width": 1},
        marker={"color": [CHANGE if i in changed else LINE for i in order], "size": 7},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [0.0 if p.high is None else p.high - p.value for p in series.points],
            "arrayminus": [0.0 if p.low is None else p.value - p.low for p in series.points],
            "color": LINE,
            "thickness": 1,
        },
        customdata=[_hover(series.metric, point) for point in series.points],
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.add_scatter(
        x=order,
        y=list(series.levels),
        mode="lines",
        line={"color": LEVEL, "width": 2, "shape": "hvh"},
        hoverinfo="skip",
    )
    for change in series.changes:
        figure.add_vline(x=change.position - 0.5, line={"color": CHANGE, "width": 1, "dash": "dot"})
    runs = counted(len(series.points), "run")
    return Figure(f"series-{number}", title(series), _json(figure, series), f"{runs}: {'; '.join(told(series))}.")


def _hover(metric: str, point: Point) -> str:
    """Write the text of a point's tooltip; Plotly reads it as HTML, and names are text."""
    value = f"{value_text(metric, point.value)}, {counted(point.trials, 'trial')}"
    lines = [point.name, point.started, value, *point.changed]
    return "<br>".join(html.escape(line) for line in lines)


def _json(figure: go.Figure, series: Series) -> Markup:
    every = max(1, len(series.points) // 8)
    shown = list(range(0, len(series.points), every))
    axis = {"automargin": True, "zeroline": False, "title": {"standoff": 10, "font": {"size": 12}}}
    figure.update_layout(
        template="none",
        height=HEIGHT_PX,
        margin={"l": 8, "r": 12, "t": 8, "b": 44},
        showlegend=False,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif", "size": 13},
        hoverlabel={"align": "left"},
    )
    figure.update_xaxes(**axis, tickvals=shown, ticktext=[series.points[i].started[:10] for i in shown])
    figure.update_yaxes(**axis)
    figure.update_yaxes(title_text=UNITS[series.metric])
    return Markup(str(pio.to_json(figure, engine="json")).replace("<", "\\u003c").replace(">", "\\u003e"))
