"""How stale were the updates of arms whose workers do not wait for each other?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pandas as pd

from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study, believed, by_network
from testbed.analysis.report.question import Panel, Question

Counts: TypeAlias = "pd.Series[int]"

DEFINED = (
    "A worker computes an update on weights that it got from the server. The update's staleness is the number of other "
    "workers' updates that the server has applied since it sent these weights. A synchronous arm has no staleness and "
    "is not drawn."
)
CURVES = "A point of the curve is the share of updates, over all repeats, that missed at most that many others."


def distribution(study: Study) -> Question | None:
    """Show for each asynchronous arm the share of updates that were at most so stale; over an axis, their medians."""
    groups = study.having(lambda cell: _updates(cell) is not None)
    if not groups:
        return None
    cells = [cell for group in groups for cell in group.cells]
    frame, panels, how = _along(study, groups, cells) if study.along else _curves(study, groups, cells)
    warmup = max(trial.warmup for cell in cells for trial in cell.counted(JCT))
    left_out = f" Each worker's updates during the warm-up ({warmup}) are left out." if warmup else ""
    told, _ = believed(cells, JCT)
    sentences = [_seen_on(network, of) for network, of in by_network(told, cells).items()]
    return Question(
        "staleness",
        "How stale were updates?",
        frame,
        panels,
        tuple(words.of_networks(sentences) + words.not_told(cells, JCT)),
        f"{DEFINED} {how}{left_out}",
        tuple(key for key in plot.dashes(study.run) if key.label in {cell.label for cell in cells}),
    )


def _updates(cell: MeasuredCell) -> Counts | None:
    """Count, by staleness, the updates of all repeats that had it; None of a synchronous arm."""
    found = [trial.staleness for trial in cell.counted(JCT) if trial.staleness is not None]
    return pd.concat(found).value_counts().sort_index() if found else None


def _known(cell: MeasuredCell) -> Counts:
    found = _updates(cell)
    assert found is not None  # others were left out
    return found


def _along(
    study: Study, groups: Sequence[Group], cells: Sequence[MeasuredCell]
) -> tuple[pd.DataFrame, tuple[Panel, ...], str]:
    """A line an arm of medians over the axis."""
    along = study.along
    assert along is not None  # or the caller had taken the curves

    def medians(group: Group, start: int) -> plot.Figure:
        traces = plot.lines(study.run, group, start, along, "staleness", "median staleness:", JCT)
        figure = plot.along_figure(traces, along, group.cells, "median staleness (updates missed)")
        figure["layout"]["yaxis"] |= plot.whole(max(cell.middle("staleness_median") or 0 for cell in cells))
        return figure

    rows = [
        plot.identity(cell, along, JCT)
        | words.columns("staleness", cell.median("staleness_median"))
        | {name: cell.middle(name) for name in ("staleness_p95", "staleness_max")}
        for cell in cells
    ]
    return pd.DataFrame(rows), plot.panels("staleness", groups, medians), words.INTERVALS


def _curves(
    study: Study, groups: Sequence[Group], cells: Sequence[MeasuredCell]
) -> tuple[pd.DataFrame, tuple[Panel, ...], str]:
    """A curve an arm: which share of its updates was at most so stale."""
    tables = [_curve(study, cell) for cell in cells]
    frame, rows = plot.stacked(tables)
    spans = {id(cell): span for cell, span in zip(cells, rows, strict=True)}

    def curves(group: Group, _: int) -> plot.Figure:
        traces = [_line(study, cell, spans[id(cell)]) for cell in group.cells]
        figure = plot.lines_figure(traces, "updates of others that an update missed", "share of updates", x_from_0=True)
        figure["layout"]["xaxis"] |= plot.whole(max(int(table["staleness"].max()) for table in tables))
        figure["layout"]["yaxis"] |= {"tickformat": ".0%"}
        return figure

    return frame, plot.panels("staleness", groups, curves), CURVES


def _curve(study: Study, cell: MeasuredCell) -> pd.DataFrame:
    counts = _known(cell)
    table = pd.DataFrame({"staleness": counts.index, "updates": counts.to_numpy()})
    table["share_at_most"] = table["updates"].cumsum() / table["updates"].sum()
    known = plot.identity(cell, study.along, JCT)
    return table.assign(**known)[[*known, *table]]


def _line(study: Study, cell: MeasuredCell, rows: tuple[int, int]) -> plot.Trace:
    symbol = "circle" if cell.valid_in(JCT) else "x"
    return plot.curve(
        *(study.run, cell.label, rows, "staleness", "share_at_most", "hv"),
        mode="lines+markers",
        marker={"size": 6, "color": plot.colour(study.run, cell.label), "symbol": symbol},
        customdata={"columns": ["arm", "verdict"]},
        hovertemplate="%{customdata[0]} (%{customdata[1]})<br>%{y:.1%} of the updates missed at most %{x}"
        "<extra></extra>",
    )


def _seen_on(network: str, cells: Sequence[MeasuredCell]) -> list[str]:
    middles = [(_quantile(cell, 0.5), cell) for cell in cells]
    told = [f"{value:g} for {words.in_cell(cell)}" for value, cell in middles]
    if len(told) > words.MOST_NAMED:
        (least, few), *_, (most, many) = sorted(middles, key=lambda pair: pair[0])
        told = [f"{least:g} for {words.in_cell(few)} to {most:g} for {words.in_cell(many)}"]
    worst = max(cells, key=lambda cell: int(_known(cell).index.max()))
    on = f"On {network}, half" if network else "Half"
    latest = f"It missed {_known(worst).index.max()} others; 95 % of this arm's updates missed at most"
    which = "The most stale update" + (f" on {network}" if network else "")
    return [
        f"{on} of the updates missed at most {words.listed(told)}.",
        f"{which} is one of {words.in_cell(worst)}. {latest} {_quantile(worst, 0.95):g}.",
    ]


def _quantile(cell: MeasuredCell, share: float) -> float:
    """The least staleness that this share of the updates does not exceed."""
    counts = _known(cell)
    return float(counts.index[counts.cumsum() >= share * counts.sum()].min())
