"""The report's figures as Plotly descriptions. One figure per batch, so that a page can lay them side by side.

Text and grid lines take their colours from the page's style sheet, so that light, dark and print need no second figure.
"""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

from analysis import metrics, words
from analysis.load import Run, Trial

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8f6b3d", "#7a68b3", "#9aa02c")
"""Okabe and Ito's colours, which colour-blind readers tell apart, without the red that means INVALID here."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""Six to eight colours: together they tell 24 arms apart."""
COMPUTE = "#a7aeb8"
INVALID = "#d9453a"

_ROW_PX = 54
_MARGIN = {"l": 8, "r": 12, "t": 8, "b": 44}
_LABEL_WIDTH = 20
_LEAST_MARGIN = 0.01
_ROOM_FOR_TEXT = 1.3
"""The axis of a bar chart is this much longer than its longest bar, at whose end there is a number."""


def colour(run: Run, label: str) -> str:
    """The colour of an arm, the same everywhere."""
    return PALETTE[run.labels.index(label) % len(PALETTE)]


def dash(run: Run, label: str) -> str:
    """The dash of an arm's line, in Plotly's terms."""
    return DASHES[run.labels.index(label) % len(DASHES)]


def jct(run: Run, batch: int) -> str:
    """Bars of JCT (s), an arm each, split into compute and synchronisation where these are known."""
    trials = [t for t in _finished(run, batch) if t.metrics.jct_s is not None]
    figure = go.Figure()
    for row, trial in enumerate(trials):
        m = trial.metrics
        if m.compute_s is not None:
            figure.add_bar(x=[m.compute_s], y=[row], **_bar(trial, COMPUTE, "compute"))
        figure.add_bar(
            x=[m.jct_s if m.sync_s is None else m.sync_s],
            y=[row],
            **_bar(trial, colour(run, trial.label), "JCT" if m.sync_s is None else "synchronisation"),
            text=f" {m.jct_s:.2f} s",
            textposition="outside",
            cliponaxis=False,
        )
    longest = max((t.metrics.jct_s or 0.0 for t in run.finished), default=0.0)
    figure.update_layout(barmode="stack")
    return _rows(figure, trials, "JCT (s)", (0, _ROOM_FOR_TEXT * longest or 1))


def _bar(trial: Trial, shade: str, part: str) -> dict[str, Any]:
    """How one part of a bar looks, hatched where the trial is INVALID, and what is said about it."""
    hatch = {"shape": "/", "fillmode": "overlay", "fgcolor": "#ffffff", "fgopacity": 0.7, "solidity": 0.35}
    return {
        "orientation": "h",
        "width": 0.62,
        "marker": {"color": shade, "pattern": {} if trial.valid else hatch},
        "customdata": [_text(words.arm(trial))],
        "hovertemplate": f"%{{customdata}}<br>{part} %{{x:.3f}} s<extra></extra>",
    }


def gst(run: Run, batch: int) -> str:
    """GST (s) of each iteration as box and points, an arm each, with what theory says as a dashed line."""
    trials = [t for t in _finished(run, batch) if t.samples is not None]
    return _gst(run, trials, [1.0] * len(trials), "GST (s)")


def gst_over_theory(run: Run, batch: int) -> str:
    """The same over what theory says, where a spread of a few per cent can be seen."""
    trials = [t for t in _finished(run, batch) if t.samples is not None and t.metrics.gst_theory_s]
    theory = [t.metrics.gst_theory_s or 1.0 for t in trials]
    return _gst(run, trials, theory, "GST / theory")


def _gst(run: Run, trials: Sequence[Trial], units: Sequence[float], title: str) -> str:
    """A box with points for each trial, its GST in multiples of its unit (s); the axis starts at 0 if units are 1 s."""
    figure = go.Figure()
    lowest, highest = math.inf, 0.0
    for row, (trial, unit) in enumerate(zip(trials, units, strict=True)):
        values = metrics.gst_s(trial.samples, run.warmup) / unit  # type: ignore[arg-type]  # callers left None out
        figure.add_box(x=values.tolist(), y=[row] * len(values), **_box(trial, colour(run, trial.label), values.index))
        theory = (trial.metrics.gst_theory_s or 0.0) / unit
        if theory:
            line = {"dash": "4px,3px", "width": 2}
            figure.add_shape(type="line", x0=theory, x1=theory, y0=row - 0.42, y1=row + 0.42, line=line)
        lowest, highest = min(lowest, values.min(), theory or math.inf), max(highest, values.max(), theory)
    relative = any(unit != 1.0 for unit in units)
    margin = 0.08 * (highest - lowest) or _LEAST_MARGIN
    return _rows(figure, trials, title, (lowest - margin if relative else 0.0, highest + margin))


def _box(trial: Trial, shade: str, iterations: Iterable[int]) -> dict[str, Any]:
    """How a box of one point an iteration looks, and what is said about a point."""
    return {
        "orientation": "h",
        "boxpoints": "all",
        "jitter": 0.7,
        "pointpos": 0,
        "width": 0.55,
        "marker": {"color": shade, "size": 5, "opacity": 0.7},
        "line": {"color": shade, "width": 1.5},
        "fillcolor": _faint(shade),
        "hoveron": "points",
        "customdata": [[_text(words.arm(trial)), int(i)] for i in iterations],
        "hovertemplate": "%{customdata[0]}<br>iteration %{customdata[1]}: %{x:.4f}<extra></extra>",
    }


def loss(run: Run, batch: int) -> str:
    """Training loss, mean over the workers, over the seconds since the trial's start; a line an arm."""
    figure = go.Figure()
    for trial in _finished(run, batch):
        curve = words.loss_curve(trial)
        if curve is None:
            continue
        figure.add_scatter(
            x=curve["time_s"].tolist(),
            y=curve["loss"].tolist(),
            mode="lines",
            line={"color": colour(run, trial.label), "dash": dash(run, trial.label), "width": 2},
            customdata=[[_text(words.arm(trial)), int(i)] for i in curve.index],
            hovertemplate="%{customdata[0]}<br>iteration %{customdata[1]}, %{x:.2f} s: loss %{y:.4f}<extra></extra>",
        )
    figure.update_xaxes(title="seconds since the trial's start", rangemode="tozero")
    figure.update_yaxes(title="training loss (cross-entropy)", rangemode="tozero")
    return _finish(figure, 300)


def _rows(figure: go.Figure, trials: Sequence[Trial], title: str, span: tuple[float, float]) -> str:
    """A figure with a row for each trial, the first on top, over the span of values."""
    count = len(trials)
    figure.update_xaxes(title=title, range=list(span), nticks=7)
    labels = [_tick(trial) for trial in trials]
    figure.update_yaxes(tickvals=list(range(count)), ticktext=labels, range=[count - 0.5, -0.5], showgrid=False)
    return _finish(figure, _ROW_PX * count + _MARGIN["t"] + _MARGIN["b"])


def _finish(figure: go.Figure, height: int) -> str:
    """What all figures share; as JSON that may stand inside a script element."""
    figure.update_layout(
        template="none",
        height=height,
        margin=_MARGIN,
        showlegend=False,
        dragmode=False,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif", "size": 13},
        hoverlabel={"align": "left"},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": COMPUTE, "activecolor": PALETTE[0]},
    )
    axis: dict[str, Any] = {
        "automargin": True,
        "fixedrange": False,
        "ticklabelstandoff": 5,  # else the two zeros of an origin touch
        "title": {"standoff": 10, "font": {"size": 12}},
    }
    figure.update_xaxes(**axis, zeroline=False)
    figure.update_yaxes(**axis, zeroline=False)
    return str(pio.to_json(figure, engine="json")).replace("<", "\\u003c").replace(">", "\\u003e")


def _finished(run: Run, batch: int) -> list[Trial]:
    return [trial for trial in run.finished if trial.batch == batch]


def _tick(trial: Trial) -> str:
    lines = [_text(line) for line in _wrapped(words.arm(trial))]
    mark = [] if trial.valid else [f'<b><span style="color:{INVALID}">{trial.verdict or "NOT CHECKED"}</span></b>']
    return "<br>".join(lines + mark)


def _wrapped(label: str) -> list[str]:
    """At most two lines, which may also break after a comma or bracket: names of topologies have no spaces."""
    breakable = re.sub(r"([,(])(?=\S)", "\\1\v", label)
    lines = textwrap.wrap(breakable, _LABEL_WIDTH, max_lines=2, placeholder=" …", replace_whitespace=False)
    return [line.replace("\v", "") for line in lines]


def _text(label: str) -> str:
    """Plotly reads labels as HTML; a label from a spec is text."""
    return html.escape(label)


def _faint(shade: str) -> str:
    red, green, blue = (int(shade[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"
