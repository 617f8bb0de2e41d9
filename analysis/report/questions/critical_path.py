"""Question about the critical path: what decides how long an iteration takes, where a strategy says who holds what?"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import Study
from testbed.analysis.report.question import Key, Panel, Question, column, rounded

MOST_PANELS = 6
SORTS = {
    "forward": ("forward pass", plot.COMPUTE),
    "backward": ("backward pass", "#5b6673"),
    "output": ("outputs", "#56b4e9"),
    "gradient": ("gradients of outputs", "#0072b2"),
    "AllReduce": ("AllReduce", "#e69f00"),
}
"""Name and colour of each sort of stage, by the first word of a stage."""
DEFINED = (
    "The path leads from the start of the predicted iteration to its end. Each stage begins when the one before it "
    "lets it: what it needs is there, or its server or its link is free. What is not on the path can take longer "
    "without a longer iteration. Stages of one sort in one place are drawn together. A link is called by its two "
    "ends, with the panel between them. Of each arm, the trial with the median JCT at its first setting is shown."
)


def path(study: Study) -> Question | None:
    """Bars along the time of the predicted iteration, a row for each server or link."""
    found: dict[str, Trial] = {}
    for cell in study.cells:
        if cell.typical and cell.typical.critical_path:
            found.setdefault(cell.label, cell.typical)
    if not found:
        return None
    trials = list(found.values())
    tables = [_table(trial) for trial in trials[:MOST_PANELS]]
    frame, spans = plot.stacked(tables)
    panels = [
        Panel(f"critical-path-{i}", words.name(trial), _figure(table, rows))
        for i, (trial, table, rows) in enumerate(zip(trials, tables, spans, strict=False))  # some trials are not drawn
    ]
    more = f" Drawn are {MOST_PANELS} of {len(trials)} arms." if len(trials) > MOST_PANELS else ""
    return Question(
        "critical-path",
        "What decides how long the predicted iteration takes?",
        frame,
        tuple(panels),
        (),
        DEFINED + more,
        tuple(Key(what, shade) for what, shade in SORTS.values()),
        told=tuple(map(_row, trials)),
    )


def _table(trial: Trial) -> pd.DataFrame:
    """A row for each stage; ``row`` is that of its place in the figure."""
    places = {one.where: i for i, one in reversed([*enumerate(trial.critical_path)])}
    rows = {where: i for i, where in enumerate(sorted(places, key=places.__getitem__))}
    return pd.DataFrame(
        {
            "arm": trial.label,
            "stage": [stage.what for stage in trial.critical_path],
            "sort": [_sort(stage.what) for stage in trial.critical_path],
            "where": [stage.where for stage in trial.critical_path],
            "row": [rows[stage.where] for stage in trial.critical_path],
            "start_s": [stage.start_s for stage in trial.critical_path],
            "end_s": [stage.end_s for stage in trial.critical_path],
        }
    )


def _sort(what: str) -> str:
    first = what.split(" ", 1)[0]
    return SORTS[first][0] if first in SORTS else what


def _figure(table: pd.DataFrame, rows: tuple[int, int]) -> plot.Figure:
    shades = dict(SORTS.values())
    end_s = float(table["end_s"].max())
    places = table.drop_duplicates("row").sort_values("row")["where"].tolist()
    trace = {
        "type": "bar",
        "orientation": "h",
        "rows": list(rows),
        "base": column("start_s"),
        "x": column("end_s", minus="start_s"),
        "y": column("row"),
        "width": 0.8,
        "marker": {"color": [shades.get(one, plot.COMPUTE) for one in table["sort"]], "line": {"width": 0}},
        "customdata": {"columns": ["stage", "where"]},
        "hovertemplate": "%{customdata[0]}, %{customdata[1]}<br>%{x:.4g} s from %{base:.4g} s<extra></extra>",
    }
    layout = {
        "xaxis": {"title": {"text": "time in the predicted iteration (s)"}, "range": [0, rounded(end_s)]},
        "yaxis": {
            "tickvals": list(range(len(places))),
            "ticktext": [plot.text(where) for where in places],
            "range": [len(places) - 0.4, -0.6],
            "showgrid": False,
        },
        "shapes": [],
    }
    return plot.timed(plot.finished([trace], layout, 90 + 22 * len(places)), "x", end_s)


def _row(trial: Trial) -> dict[str, str]:
    """Write for how long the path is in each sort of stage; where two overlap, as transfers in a pipeline, in the
    later."""
    stages: Sequence[tuple[str, float, float]] = [
        (_sort(stage.what), stage.start_s, stage.end_s) for stage in trial.critical_path
    ]
    ends = [*(start for _, start, _ in stages[1:]), stages[-1][2]]
    spent = dict.fromkeys((what for what, _ in SORTS.values()), 0.0)
    for (sort, start_s, _), end_s in zip(stages, ends, strict=True):
        spent[sort] = spent.get(sort, 0.0) + max(0.0, end_s - start_s)
    whole_s = sum(spent.values())
    shares = {sort: f"{seconds / whole_s:.0%}" if whole_s else words.UNKNOWN for sort, seconds in spent.items()}
    return {"Trial": words.name(trial), "Predicted iteration": words.seconds(stages[-1][2]), **shares}
