"""Question about updates: what became of those of arms in which not all are applied alike, and over which links did
they come?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, room, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study, notes
from testbed.analysis.report.networks import course, numbered
from testbed.analysis.report.question import Key, Panel, Question, column, rounded
from testbed.base.units import rate_text

Floats = NDArray[np.float64]
MOST_PANELS = 12
MOST_RATES = 8
"""Bars of a figure; of more rates, those next to each other share a bar."""
ROUNDING = 1e-9
SHADES = ("#5b6673", "#a7aeb8", "#dcc988", "#8a7434", "#b5533c")
"""Colours of fates, in their order: grey what was applied, sand what was not, red what was lost."""
DEFINED = "Counts are of all updates of all repeats, those of the warm-up included."
RATES_DEFINED = (
    "The rate is that of the link from the worker's host when its update was ready: as the link was shaped at the "
    "start, and as perturbations have changed it since. It does not count what other traffic took of the link. Bars "
    "add up the updates of all repeats. An arm is not drawn if workers have several links, or on a network of a user's"
    " own."
)


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
    return Question(
        "fates",
        "What became of the updates?",
        pd.DataFrame(plot.identity(cell, study.along, JCT) | _columns(cell, named) for cell in every),
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


def _columns(cell: MeasuredCell, named: Mapping[str, str]) -> dict[str, float]:
    counts = _counts(cell)
    total = max(1, sum(counts.values()))
    numbers = {f"{name}_updates": counts.get(name, 0) for name in named}
    return numbers | {f"{name}_share": counts.get(name, 0) / total for name in named}


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
    order = list(dict.fromkeys(table["rate"]))
    bars = []
    for row, fate in enumerate(table["fate"]):
        bars.append(
            {
                "type": "bar",
                "name": plot.text(fate),
                "rows": [start + row, start + row + 1],
                "x": column("rate"),
                "y": column("updates"),
                "marker": {"color": named[fate]},
                "hovertemplate": f"%{{x}}: %{{y}} updates {plot.text(fate)}<extra></extra>",
            }
        )
    highest = float(table.groupby("rate")["updates"].sum().max())
    layout: dict[str, Any] = {
        "barmode": "stack",
        "xaxis": {
            "title": {"text": "rate of the worker's link"},
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [plot.text(rate) for rate in order],
            "showgrid": False,
        },
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
