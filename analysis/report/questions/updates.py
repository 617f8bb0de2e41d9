"""Questions about updates of arms whose workers do not wait for each other: how stale were they, what became of them,
and over which links did they come?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.recorded import Place, Trial
from testbed.analysis.report import plot, room, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study, notes
from testbed.analysis.report.networks import course, numbered
from testbed.analysis.report.question import CROSS, Key, Panel, Question, column, rounded
from testbed.base.units import rate_text

Counts: TypeAlias = "pd.Series[int]"
MOST_PANELS = 12
MOST_RATES = 8
"""Bars of a figure; of more rates, those next to each other share a bar."""
ROUNDING = 1e-9
SHADES = ("#5b6673", "#a7aeb8", "#dcc988", "#8a7434", "#b5533c")
"""Colours of fates, in their order: grey what was applied, sand what was not, red what was lost."""
STALENESS_DEFINED = (
    "A worker computes an update on weights that it got from the server. The update's staleness is the number of other "
    "workers' updates that the server has applied since it sent these weights. A synchronous arm has no staleness and "
    "is not drawn."
)
CURVES = "A point of the curve is the share of updates, over all repeats, that missed at most that many others."
DEFINED = "Counts are of all updates of all repeats, those of the warm-up included."
RATES_DEFINED = (
    "The rate is that of the link from the worker's host when its update was ready: as the link was shaped at the "
    "start, and as perturbations have changed it since. It does not count what other traffic took of the link. Bars "
    "add up the updates of all repeats. An arm is not drawn if workers have several links, or on a network of a user's"
    " own."
)


def distribution(study: Study) -> Question | None:
    """Show for each asynchronous arm the share of updates that were at most so stale; over an axis, their medians."""
    counts = {cell.place: of for cell in study.cells if (of := _staleness(cell)) is not None}
    groups = study.having(lambda cell: cell.place in counts)
    if not groups:
        return None
    cells = [cell for group in groups for cell in group.cells]
    frame, panels = _medians(study, groups, cells) if study.along else _curves(study, groups, cells, counts)
    warmup = max(trial.warmup for cell in cells for trial in cell.counted(JCT))
    left_out = f" Each worker's updates during the warm-up ({warmup}) are left out." if warmup else ""
    return Question(
        "staleness",
        "How stale were updates?",
        frame,
        panels,
        tuple(words.by_networks(cells, JCT, lambda network, of: _stale_on(network, of, counts))),
        f"{STALENESS_DEFINED} {words.INTERVALS if study.along else CURVES}{left_out}",
        tuple(key for key in plot.dashes(study.run) if key.label in {cell.label for cell in cells}),
    )


def _staleness(cell: MeasuredCell) -> Counts | None:
    """Count, by staleness, the updates of all repeats that had it; None of a synchronous arm."""
    found = [trial.staleness for trial in cell.counted(JCT) if trial.staleness is not None]
    return pd.concat(found).value_counts().sort_index() if found else None


def _medians(
    study: Study, groups: Sequence[Group], cells: Sequence[MeasuredCell]
) -> tuple[pd.DataFrame, tuple[Panel, ...]]:
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
    return pd.DataFrame(rows), plot.panels("staleness", groups, medians)


def _curves(
    study: Study, groups: Sequence[Group], cells: Sequence[MeasuredCell], counts: Mapping[Place, Counts]
) -> tuple[pd.DataFrame, tuple[Panel, ...]]:
    """A curve an arm: which share of its updates was at most so stale."""
    tables = []
    for cell in cells:
        of, known = counts[cell.place], plot.identity(cell, study.along, JCT)
        table = pd.DataFrame({"staleness": of.index, "updates": of.to_numpy()})
        table["share_at_most"] = table["updates"].cumsum() / table["updates"].sum()
        tables.append(table.assign(**known)[[*known, *table]])
    frame, rows = plot.stacked(tables)
    rows_of = {cell.place: span for cell, span in zip(cells, rows, strict=True)}

    def curves(group: Group, _: int) -> plot.Figure:
        traces = []
        for cell in group.cells:
            symbol, shade = "circle" if cell.valid_in(JCT) else CROSS, plot.colour(study.run, cell.label)
            trace = plot.curve(
                *(study.run, cell.label, rows_of[cell.place], "staleness", "share_at_most", "hv"),
                mode="lines+markers",
                marker={"size": 6, "color": shade, "symbol": symbol},
                customdata={"columns": ["arm", "verdict"]},
                hovertemplate="%{customdata[0]} (%{customdata[1]})<br>%{y:.1%} of the updates missed at most %{x}"
                "<extra></extra>",
            )
            traces.append(trace)
        figure = plot.lines_figure(traces, "updates of others that an update missed", "share of updates", x_from_0=True)
        figure["layout"]["xaxis"] |= plot.whole(int(frame["staleness"].max()))
        figure["layout"]["yaxis"] |= {"tickformat": ".0%"}
        return figure

    return frame, plot.panels("staleness", groups, curves)


def _stale_on(network: str, cells: Sequence[MeasuredCell], counts: Mapping[Place, Counts]) -> list[str]:
    middles = [(_quantile(counts[cell.place], 0.5), cell) for cell in cells]
    told = [f"{value:g} for {words.in_cell(cell)}" for value, cell in middles]
    if len(told) > words.MOST_NAMED:
        (least, few), *_, (most, many) = sorted(middles, key=lambda pair: pair[0])
        told = [f"{least:g} for {words.in_cell(few)} to {most:g} for {words.in_cell(many)}"]
    worst = max(cells, key=lambda cell: int(counts[cell.place].index.max()))
    of = counts[worst.place]
    on = f"On {network}, half" if network else "Half"
    latest = f"It missed {of.index.max()} others; 95 % of this arm's updates missed at most {_quantile(of, 0.95):g}."
    which = "The most stale update" + (f" on {network}" if network else "")
    return [
        f"{on} of the updates missed at most {words.listed(told)}.",
        f"{which} is one of {words.in_cell(worst)}. {latest}",
    ]


def _quantile(counts: Counts, share: float) -> float:
    """The least staleness that this share of the updates does not exceed."""
    return float(counts.index[counts.cumsum() >= share * counts.sum()].min())


def fates(study: Study) -> Question | None:
    """A bar a cell with the share of each fate, a panel for each setting."""
    groups = study.settings_having(_told)
    if not groups:
        return None
    shown = groups[:MOST_PANELS]
    cells = [cell for group in shown for cell in group.cells]
    every = [cell for group in groups for cell in group.cells]
    named = _fates(every)
    more = f" Drawn are the first {len(shown)} of {len(groups)} settings." if len(groups) > len(shown) else ""
    rows = []
    for cell in every:
        counts = _counts(cell)
        total = max(1, sum(counts.values()))
        numbers = {f"{name}_updates": counts.get(name, 0) for name in named}
        shares = {f"{name}_share": counts.get(name, 0) / total for name in named}
        rows.append(plot.identity(cell, study.along, JCT) | numbers | shares)
    return Question(
        "fates",
        "What became of the updates?",
        pd.DataFrame(rows),
        plot.panels("fates", shown, lambda group, first: _bars(group, first, named)),
        room.rest(every),
        f"{DEFINED}{notes(cells, 'fates')}{more}",
        tuple(Key(name, shade) for name, shade in named.items()),
        tuple(_row(cell, named) for cell in room.chosen(every)),
    )


def _told(cell: MeasuredCell) -> list[pd.Series[Any]]:
    """The fates of the updates of each repeat; nothing where all have the same."""
    return [
        trial.samples["fate"]
        for trial in cell.counted(JCT)
        if trial.kind.own_samples.measures.fates and trial.samples is not None and "fate" in trial.samples
    ]


def _fates(cells: Sequence[MeasuredCell]) -> Mapping[str, str]:
    """Return what can become of updates in any of the cells, each with its colour."""
    known = [
        name for cell in cells for trial in cell.finished for name in trial.kind.own_samples.measures.fates.values()
    ]
    return {name: SHADES[i % len(SHADES)] for i, name in enumerate(dict.fromkeys(known))}


def _counts(cell: MeasuredCell) -> Mapping[str, int]:
    """Count the updates by fate."""
    names = cell.counted(JCT)[0].kind.own_samples.measures.fates
    counts = pd.concat(_told(cell)).map(names).value_counts()
    return {str(name): int(count) for name, count in counts.items()}


def _bars(group: Group, first: int, named: Mapping[str, str]) -> plot.Figure:
    bars = [
        plot.bar(
            (first + row, first + row + 1),
            row,
            f"{name}_share",
            shade,
            cell.valid_in(JCT),
            "",
            name=plot.text(name),
            customdata={"columns": ["arm", f"{name}_updates"]},
            hovertemplate="%{customdata[0]}<br>"
            f"{plot.text(name)}: %{{customdata[1]}} updates, %{{x:.1%}}<extra></extra>",
        )
        for row, cell in enumerate(group.cells)
        for name, shade in named.items()
    ]
    figure = plot.rows_figure(bars, group.cells, "share of updates", (0.0, 1.02), JCT)
    figure["layout"]["xaxis"] |= {"tickformat": ".0%"}
    return figure


def _row(cell: MeasuredCell, named: Mapping[str, str]) -> dict[str, str]:
    counts = _counts(cell)
    total = sum(counts.values())
    told = {
        name.capitalize(): f"{counts[name]:,} ({counts[name] / total:.1%})" if counts.get(name) else "none"
        for name in named
    }
    return {"Arm": words.row_name(cell, JCT), "Updates": f"{total:,}", **told}


def by_rate(study: Study) -> Question | None:
    """Show how many updates came from workers with which rate, by their fate; where rates differ."""
    found = [(cell, table) for cell in study.cells if (table := _by_rate(cell)) is not None]
    if not found:
        return None
    shown = room.chosen(found, room.of_pair, MOST_PANELS)
    cells = [cell for cell, _ in found]
    named = _fates(cells)
    frames, panels, start = [], [], 0
    for i, (cell, table) in enumerate(shown):
        known = plot.identity(cell, study.along, JCT)
        frames.append(table.assign(**known)[[*known, *table]])
        panels.append(Panel(f"update-rates-{i}", words.in_cell(cell), _rates_figure(table, start, named)))
        start += len(table)
    more = f" Drawn are {len(shown)} of {len(found)} arms at settings." if len(found) > len(shown) else ""
    is_short = len(found) <= words.MOST_NAMED
    return Question(
        "update-rates",
        "From links of which rate did the updates come?",
        pd.concat(frames, ignore_index=True),
        tuple(panels),
        tuple(_slowest(*one) for one in found) if is_short else room.rest(found, room.of_pair, where="results.csv"),
        f"{RATES_DEFINED}{notes(cells, 'fates')}{more}",
        tuple(Key(name, shade) for name, shade in named.items()),
        () if is_short else tuple(_slowest_row(*one, named) for one in room.chosen(found, room.of_pair)),
    )


def _by_rate(cell: MeasuredCell) -> pd.DataFrame | None:
    """Updates by rate and fate, the lowest rate first; None where all came from links of one rate, or nobody knows."""
    if not _told(cell):
        return None
    parts = [_rated(trial) for trial in cell.counted(JCT)]
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    updates = pd.concat(known)
    if updates["rate_bps"].nunique() < 2:
        return None
    updates["rate"] = _labels(updates["rate_bps"])
    by = updates.groupby(["rate", "fate"], sort=False)
    table = by.agg(updates=("rate_bps", "size"), lowest_bps=("rate_bps", "min")).reset_index()
    lowest = table.groupby("rate")["lowest_bps"].transform("min")
    place = {name: i for i, name in enumerate(_fates([cell]))}
    ordered = table.assign(lowest_bps=lowest, place=table["fate"].map(place))
    return ordered.sort_values(["lowest_bps", "place"], ignore_index=True).drop(columns="place")


def _rated(trial: Trial) -> pd.DataFrame | None:
    """Return for each update its fate, and the rate of its worker's link when it was ready."""
    samples, topology = trial.samples, numbered(trial)
    if samples is None or topology is None or "node" not in samples or samples["node"].dtype.kind not in "iu":
        return None
    rates_bps = pd.Series(np.nan, index=samples.index)
    ready_s = samples["ready_s"] - samples["start_s"].min()
    for node, rows in samples.groupby("node").groups.items():
        number = int(str(node))
        links = topology.ports[number] if 0 <= number < len(topology.nodes) else ()
        if len(links) != 1:
            return None
        since_s, rate_bps = course(trial, links[0])
        rates_bps[rows] = rate_bps[np.searchsorted(since_s, ready_s[rows].to_numpy(), side="right") - 1]
    fates_of = samples["fate"].map(trial.kind.own_samples.measures.fates)
    return pd.DataFrame({"rate_bps": rates_bps, "fate": fates_of}).dropna()


def _labels(rates_bps: pd.Series[float]) -> list[str]:
    """Rates as text; of many, ranges of equal width."""
    if rates_bps.nunique() <= MOST_RATES:
        return [rate_text(rate_bps) for rate_bps in rates_bps]
    width_bps = float(rates_bps.max()) / MOST_RATES
    ends = [max(1, math.ceil(rate_bps / width_bps - ROUNDING)) for rate_bps in rates_bps]
    return [f"to {rate_text(float(f'{end * width_bps:.3g}'))}" for end in ends]


def _rates_figure(table: pd.DataFrame, start: int, named: Mapping[str, str]) -> plot.Figure:
    bars = [
        {
            "type": "bar",
            "name": plot.text(fate),
            "rows": [row, row + 1],
            "x": column("rate"),
            "y": column("updates"),
            "marker": {"color": named[fate]},
            "hovertemplate": f"%{{x}}: %{{y}} updates {plot.text(fate)}<extra></extra>",
        }
        for row, fate in enumerate(table["fate"], start)
    ]
    highest = float(table.groupby("rate")["updates"].sum().max())
    layout: dict[str, Any] = {
        "barmode": "stack",
        "xaxis": plot.categories(dict.fromkeys(table["rate"]), title={"text": "rate of the worker's link"}),
        "yaxis": {"title": {"text": "updates"}, "range": [0, rounded(1.05 * highest)], **plot.whole(highest)},
    }
    return plot.finished(bars, layout, 300)


def _slowest(cell: MeasuredCell, table: pd.DataFrame) -> str:
    """Say what became of the updates that came over the slowest links."""
    slowest = table[table["rate"] == table["rate"][0]]
    total, every = int(slowest["updates"].sum()), int(table["updates"].sum())
    each = (f"{count:,} {fate}" for count, fate in zip(slowest["updates"], slowest["fate"], strict=True))
    return (
        f"{words.row_name(cell, JCT)}: {total:,} of {every:,} updates came from the slowest links "
        f"({words.unbroken(str(table['rate'][0]))}): {words.listed(each)}."
    )


def _slowest_row(cell: MeasuredCell, table: pd.DataFrame, named: Mapping[str, str]) -> dict[str, str]:
    """Write what :func:`_slowest` says, as a row."""
    slowest = table[table["rate"] == table["rate"][0]]
    by_fate = dict(zip(slowest["fate"], slowest["updates"], strict=True))
    return {
        "Arm": words.row_name(cell, JCT),
        "Slowest links": words.unbroken(str(table["rate"][0])),
        "Updates from them": f"{int(slowest['updates'].sum()):,} of {int(table['updates'].sum()):,}",
        **{name.capitalize(): f"{by_fate.get(name, 0):,}" for name in named},
    }
