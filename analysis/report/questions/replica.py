"""How far was the replica behind the server, in arms that have one, and what did it get (MLfabric, fig. 9)?"""

from __future__ import annotations

from functools import partial
from itertools import accumulate, groupby

import pandas as pd

from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, room, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study
from testbed.analysis.report.question import CROSS, Panel, Question, rounded
from testbed.base.units import size_text

BYTES = "replica_bytes"
BEHIND, DIVERGENCE = "replica_behind_allowed", "divergence_allowed"
"""Metrics that have an arm's bound."""
DRAWN = {
    BEHIND: ("behind", "updates that the replica lacked"),
    DIVERGENCE: ("divergence", "divergence, at most (norm)"),
}
"""Column of a curve over time and title of its axis, by the metric that has its bound."""
BOUNDS = {BEHIND: "bound (updates)", DIVERGENCE: "bound of the divergence (norm)"}
"""Name of the axis of an arm's bound, by the metric that has the bound."""
UNITS = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
DEFINED = (
    "When the server applies an update, the replica may still lack that one and some before it. The curve says how "
    "many. Bytes are those of the updates and sums that the replica got in the whole trial; the fewer, the more were "
    "summed on their way. The divergence is the sum of norms of MLfabric's equation 11: the weights of the two were "
    "never further apart. A dashed line is an arm's bound, in its colour. A single update may be beyond the bound "
    "alone: it goes through. With several repeats, the one with the median JCT is shown."
)
BYTES_DEFINED = (
    "Bytes are those of the updates and sums that the replica got in the whole trial. A higher bound lets updates wait "
    "for each other, so that more of them are summed on their way. Arms that have a bound of the same kind are drawn "
    "together."
)


def behind(study: Study) -> Question | None:
    """A curve an arm over time, and its numbers."""
    courses = {cell.place: course for cell in study.cells if (course := _course(cell)) is not None}
    groups = study.having(lambda cell: cell.place in courses)
    if not groups:
        return None
    cells = [cell for group in groups for cell in group.cells]
    tables = []
    for cell in cells:
        known = plot.identity(cell, study.along, JCT)
        tables.append(courses[cell.place].assign(**known)[[*known, *courses[cell.place]]])
    frame, rows = plot.stacked(tables)
    rows_of = {cell.place: of for cell, of in zip(cells, rows, strict=True)}

    def curves(group: Group, metric: str) -> plot.Figure:
        name, title = DRAWN[metric]
        traces, bounds = [], []
        for cell in group.cells:
            traces.append(
                plot.curve(
                    *(study.run, cell.label, rows_of[cell.place], "time_s", name, "hv"),
                    customdata={"columns": ["arm", "behind", "divergence"]},
                    hovertemplate="%{customdata[0]}<br>%{customdata[1]} updates behind, divergence at most "
                    "%{customdata[2]:.3g}<extra></extra>",
                )
            )
            if (bound := _bound(cell, metric)) is not None:
                line = plot.level(bound)
                bounds.append(line | {"line": line["line"] | {"color": plot.colour(study.run, cell.label)}})
        return plot.lines_figure(traces, "time (s)", title, x_from_0=True, shapes=bounds)

    def behind_by(group: Group, _: int) -> plot.Figure:
        figure = curves(group, BEHIND)
        bounds = [bound for cell in group.cells if (bound := _bound(cell, BEHIND)) is not None]
        figure["layout"]["yaxis"] |= plot.whole(max([*bounds, *(float(table["behind"].max()) for table in tables)]))
        return figure

    diverging = study.having(lambda cell: cell.place in courses and _bound(cell, DIVERGENCE) is not None)
    panels = plot.panels("replica", groups, behind_by, DRAWN[BEHIND][1] if diverging else "")
    panels += plot.panels("divergence", diverging, lambda group, _: curves(group, DIVERGENCE), DRAWN[DIVERGENCE][1])
    takes_over = any(cell.typical is not None and cell.typical.metrics.takeover_behind is not None for cell in cells)
    return Question(
        "replica",
        "How far was the replica behind?",
        frame,
        panels,
        room.rest(cells, where="results.csv"),
        DEFINED,
        tuple(key for key in plot.dashes(study.run) if key.label in {cell.label for cell in cells}),
        tuple(_row(cell, courses[cell.place], takes_over) for cell in room.chosen(cells)),
    )


def _course(cell: MeasuredCell) -> pd.DataFrame | None:
    """Return, by when an update's weights were there (s), how many the replica lacked; None where there is no
    replica."""
    samples = None if cell.typical is None else cell.typical.samples
    if samples is None or not {"behind", "divergence"} <= {*samples}:
        return None
    numbers = samples[["behind", "divergence"]].apply(pd.to_numeric, errors="coerce")  # files may be of strangers
    table = numbers.assign(time_s=samples["sum_s"] - samples["start_s"].min()).dropna()
    return None if table.empty else table.sort_values("time_s", ignore_index=True)[["time_s", "behind", "divergence"]]


def _bound(cell: MeasuredCell, metric: str) -> float | None:
    return None if cell.typical is None else cell.typical.metric(metric)


def _row(cell: MeasuredCell, course: pd.DataFrame, with_takeover: bool) -> dict[str, str]:
    trial, updates, distance = cell.typical, _bound(cell, BEHIND), _bound(cell, DIVERGENCE)
    assert trial is not None
    bound = words.UNKNOWN if distance is None else f"divergence {distance:.3g}"
    count = trial.metrics.replica_bytes
    row = {
        "Arm": words.row_name(cell, JCT),
        "Behind at most": f"{course['behind'].max():.0f} updates",
        "Behind on average": f"{rounded(float(course['behind'].mean())):.3g} updates",
        "Divergence at most": f"{course['divergence'].max():.3g}",
        "Bound": bound if updates is None else f"{updates:.0f} updates",
        "Replica got": "not known" if count is None else size_text(count),
    }
    return row | ({"When it took over": _taken_over(trial)} if with_takeover else {})


def _taken_over(trial: Trial) -> str:
    """Say what the replica lacked when the server was lost, and how far apart the two were then."""
    behind, apart, lost = trial.metrics.takeover_behind, trial.accuracy.takeover_apart, trial.metrics.takeover_lost
    if behind is None:
        return "it did not"
    distance = "" if apart is None else f", weights {apart:.3g} apart"
    return f"{behind:.0f} updates behind{distance}, {lost or 0:.0f} lost"


def by_bound(study: Study) -> Question | None:
    """Bytes over the bound, if arms differ in it; a panel for each group and kind of bound."""
    groups = [
        (bound, _in_lines(study, bound, group))
        for bound in BOUNDS
        for group in study.having(partial(_has, bound))
        if len({cell.middle(bound) for cell in group.cells}) > 1
    ]
    if not groups:
        return None
    frame = pd.DataFrame(
        {
            **plot.identity(cell, study.along, JCT),
            "bound of": bound,
            "bound": cell.middle(bound),
            **words.columns(BYTES, cell.median(BYTES)),
        }
        for bound, group in groups
        for cell in group.cells
    )
    unit = next(unit for unit in UNITS if unit[0] <= frame[BYTES].max() or unit[0] == 1.0)
    starts = accumulate((len(group.cells) for _, group in groups), initial=0)
    are_several = len({bound for bound, _ in groups}) > 1
    panels = [
        Panel(
            f"replica-bytes-{i}",
            f"{group.title}: {BOUNDS[bound]}" if are_several else group.title,
            _bytes_figure(study, bound, group, first, unit),
        )
        for i, ((bound, group), first) in enumerate(zip(groups, starts, strict=False))  # the last is where it ends
    ]
    shown = {cell.label for _, group in groups for cell in group.cells}
    return Question(
        "replica-bytes",
        "How many bytes did the replica get?",
        frame,
        tuple(panels),
        tuple(told for bound, group in groups for told in _bytes_seen(bound, group)),
        f"{BYTES_DEFINED} {words.INTERVALS}",
        tuple(key for key in plot.dashes(study.run) if key.label in shown),
    )


def _has(bound: str, cell: MeasuredCell) -> bool:
    return None not in (cell.middle(bound), cell.middle(BYTES))


def _in_lines(study: Study, bound: str, group: Group) -> Group:
    """The cells of each arm one after the other, from the least bound on."""

    def place(cell: MeasuredCell) -> tuple[int, float]:
        return study.run.labels.index(cell.label), cell.middle(bound) or 0.0

    return Group(group.title, tuple(sorted(group.cells, key=place)))


def _bytes_figure(study: Study, bound: str, group: Group, first: int, unit: tuple[float, str]) -> plot.Figure:
    factor, name = unit
    error = plot.error(BYTES)
    error |= {key: error[key] | {"times": 1 / factor} for key in ("array", "arrayminus")}
    traces: list[plot.Trace] = []
    for label, members in groupby(group.cells, key=lambda cell: cell.label):
        cells, shade = list(members), plot.colour(study.run, label)
        marks = {"size": 9, "color": shade, "symbol": ["circle" if cell.valid_in(JCT) else CROSS for cell in cells]}
        trace = plot.curve(
            *(study.run, label, (first, first + len(cells)), "bound", BYTES),
            mode="lines+markers",
            error_y=error,
            marker=marks,
            customdata={"columns": ["arm", "verdict"]},
            hovertemplate=f"%{{customdata[0]}} (%{{customdata[1]}})<br>bound %{{x}}: %{{y:.4g}} {name}<extra></extra>",
        )
        trace["y"] |= {"times": 1 / factor}
        traces.append(trace)
        first += len(cells)
    figure = plot.lines_figure(traces, BOUNDS[bound], f"bytes to the replica ({name})", x_from_0=True)
    figure["layout"]["xaxis"] |= plot.ticks(cell.middle(bound) or 0.0 for cell in group.cells)
    return figure


def _bytes_seen(bound: str, group: Group) -> list[str]:
    """The fewest bytes and the most, of each network by itself."""

    def got(cell: MeasuredCell) -> str:
        value = cell.middle(bound)
        limit = f"{value:.0f} updates" if bound == BEHIND else f"{value:.3g}"
        return f"{words.amount(cell.middle(BYTES) or 0.0)} with a bound of {limit} ({words.in_cell(cell)})"

    def seen(network: str, cells: list[MeasuredCell]) -> list[str] | None:
        fewest, most = (take(cells, key=lambda cell: cell.middle(BYTES) or 0.0) for take in (min, max))
        if most is fewest:
            return None
        ratio = (most.middle(BYTES) or 0.0) / (fewest.middle(BYTES) or 1.0)
        on = f"On {network}, the" if network else "The"
        return [f"{on} replica got from {got(fewest)} to {got(most)}: {ratio:.3g} times as many."]

    return words.by_networks(group.cells, JCT, seen)
