"""How far was the replica behind the server, in arms that have one?"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, room, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study
from testbed.analysis.report.question import Question, rounded
from testbed.base.units import size_text

DEFINED = (
    "When the server applies an update, the replica may still lack that one and some before it. The curve says how "
    "many. Bytes are those of the updates and sums that the replica got in the whole trial; the fewer, the more were "
    "summed on their way. The divergence is the sum of norms of MLfabric's equation 11: the weights of the two were "
    "never further apart. A dashed line is an arm's bound, in its colour. A single update may be beyond the bound "
    "alone: it goes through. With several repeats, the one with the median JCT is shown."
)


@dataclass(frozen=True)
class Drawn:
    """A curve: its column, the metric that has its bound, and what its axis says."""

    column: str
    bound: str
    title: str


BEHIND = Drawn("behind", "replica_behind_allowed", "updates that the replica lacked")
DIVERGENCE = Drawn("divergence", "divergence_allowed", "divergence, at most (norm)")


def behind(study: Study) -> Question | None:
    """A curve an arm over time, and its numbers."""
    groups = study.having(lambda cell: _course(cell) is not None)
    if not groups:
        return None
    cells = [cell for group in groups for cell in group.cells]
    tables = [_table(study, cell) for cell in cells]
    takes_over = any(cell.typical is not None and cell.typical.metrics.takeover_behind is not None for cell in cells)
    frame, rows = plot.stacked(tables)
    spans = {id(cell): span for cell, span in zip(cells, rows, strict=True)}

    def curves(group: Group, drawn: Drawn) -> plot.Figure:
        traces = [_line(study, cell, spans[id(cell)], drawn) for cell in group.cells]
        bounds = [_bound(study, cell, drawn) for cell in group.cells if _bound_of(cell, drawn) is not None]
        return plot.lines_figure(traces, "time (s)", drawn.title, x_from_0=True, shapes=bounds)

    def behind_by(group: Group, _: int) -> plot.Figure:
        figure = curves(group, BEHIND)
        bounds = [bound for cell in group.cells if (bound := _bound_of(cell, BEHIND)) is not None]
        figure["layout"]["yaxis"] |= plot.whole(max([*bounds, *(float(table["behind"].max()) for table in tables)]))
        return figure

    diverging = study.having(lambda cell: _course(cell) is not None and _bound_of(cell, DIVERGENCE) is not None)
    panels = plot.panels("replica", groups, behind_by, BEHIND.title if diverging else "")
    panels += plot.panels("divergence", diverging, lambda group, _: curves(group, DIVERGENCE), DIVERGENCE.title)
    return Question(
        "replica",
        "How far was the replica behind?",
        frame,
        panels,
        room.rest(cells, where="results.csv"),
        DEFINED,
        tuple(key for key in plot.dashes(study.run) if key.label in {cell.label for cell in cells}),
        tuple(_row(cell, takes_over) for cell in room.chosen(cells)),
    )


def _course(cell: MeasuredCell) -> pd.DataFrame | None:
    """Return, by when an update's weights were there (s), how many the replica lacked; None where there is no
    replica."""
    trial = cell.typical
    samples = None if trial is None else trial.samples
    if samples is None or not {"behind", "divergence"} <= {*samples}:
        return None
    numbers = samples[["behind", "divergence"]].apply(pd.to_numeric, errors="coerce")  # files may be of strangers
    table = numbers.assign(time_s=samples["sum_s"] - samples["start_s"].min()).dropna()
    return None if table.empty else table.sort_values("time_s", ignore_index=True)[["time_s", "behind", "divergence"]]


def _table(study: Study, cell: MeasuredCell) -> pd.DataFrame:
    table, known = _course(cell), plot.identity(cell, study.along, JCT)
    assert table is not None  # others were left out
    return table.assign(**known)[[*known, *table]]


def _bound_of(cell: MeasuredCell, drawn: Drawn) -> float | None:
    return None if cell.typical is None else cell.typical.metric(drawn.bound)


def _bound(study: Study, cell: MeasuredCell, drawn: Drawn) -> plot.Trace:
    """A cell's bound, as a line across the figure."""
    bound = _bound_of(cell, drawn)
    assert bound is not None  # others were left out
    line = plot.level(bound)
    return line | {"line": line["line"] | {"color": plot.colour(study.run, cell.label)}}


def _line(study: Study, cell: MeasuredCell, rows: tuple[int, int], drawn: Drawn) -> plot.Trace:
    return plot.curve(
        *(study.run, cell.label, rows, "time_s", drawn.column, "hv"),
        customdata={"columns": ["arm", "behind", "divergence"]},
        hovertemplate="%{customdata[0]}<br>%{customdata[1]} updates behind, divergence at most "
        "%{customdata[2]:.3g}<extra></extra>",
    )


def _row(cell: MeasuredCell, with_takeover: bool) -> dict[str, str]:
    trial, course = cell.typical, _course(cell)
    assert trial is not None
    assert course is not None
    count = trial.metrics.replica_bytes
    row = {
        "Arm": words.row_name(cell, JCT),
        "Behind at most": f"{course['behind'].max():.0f} updates",
        "Behind on average": f"{rounded(float(course['behind'].mean())):.3g} updates",
        "Divergence at most": f"{course['divergence'].max():.3g}",
        "Bound": _bound_text(cell),
        "Replica got": "not known" if count is None else size_text(count),
    }
    return row | ({"When it took over": _taken_over(trial)} if with_takeover else {})


def _bound_text(cell: MeasuredCell) -> str:
    updates, distance = (_bound_of(cell, drawn) for drawn in (BEHIND, DIVERGENCE))
    if updates is not None:
        return f"{updates:.0f} updates"
    return words.UNKNOWN if distance is None else f"divergence {distance:.3g}"


def _taken_over(trial: Trial) -> str:
    """Say what the replica lacked when the server was lost, and how far apart the two were then."""
    behind, apart, lost = trial.metrics.takeover_behind, trial.accuracy.takeover_apart, trial.metrics.takeover_lost
    if behind is None:
        return "it did not"
    distance = "" if apart is None else f", weights {apart:.3g} apart"
    return f"{behind:.0f} updates behind{distance}, {lost or 0:.0f} lost"
