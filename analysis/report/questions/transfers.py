"""Did transfers go as planned, where somebody plans them?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from testbed.analysis import metrics
from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, room, words
from testbed.analysis.report.cells import MeasuredCell, Study
from testbed.analysis.report.networks import names
from testbed.analysis.report.question import Key, Panel, Question
from testbed.analysis.tables.trial import NEAR, late_shares, overtaken
from testbed.workloads.kinds.transfers import Purpose

MOST_PANELS = 3
MOST_BARS = 32
"""Transfers of a chart, each with a row of its own."""
ROW_PX = 17
SHADES = {Purpose.SUM: "#5b6673", Purpose.WEIGHTS: "#dcc988", Purpose.REPLICA: "#8a7434"}
"""Colours of what is no update; an update has the colour of its arm."""
DEFINED = (
    "A row is a transfer. Its upper bar is the plan, as it was when the transfer began. Its lower bar begins with the "
    "plan, too, and ends when the transfer was there: when it left its host is not recorded. By how much a transfer "
    "was later than planned is told as a share of the time that was planned for it; a negative share is earlier. An "
    "update or a sum is overtaking if it was there before another that was to be at the same node earlier. Of each arm"
    f" at each setting, the trial in the middle by JCT is considered. Drawn are {MOST_BARS} transfers after the warm-up"
    f" of at most {MOST_PANELS} of these trials; numbers are of whole trials. Predicted is what the same scheduler "
    "comes to, by discrete events, if computing and transfers take as long as planned and nothing else takes time. It "
    "is not told of trials whose links were disturbed, of trials with more than 4,000 updates, nor if computing takes "
    "an unknown time."
)


@dataclass(frozen=True)
class _Shown:
    """A trial with a table of transfers."""

    cell: MeasuredCell
    trial: Trial
    table: pd.DataFrame


def as_planned(study: Study) -> Question | None:
    """Plan and reality of a few transfers of a few trials, and numbers of more."""
    told = [
        _Shown(cell, trial, table)
        for cell in study.cells
        if (trial := cell.typical) is not None and (table := trial.transfers) is not None and len(table)
    ]
    if not told:
        return None
    shown = room.chosen(told, _label, MOST_PANELS)
    tables = [_window(one) for one in shown]
    frame, spans = plot.stacked(tables)
    panels = [
        Panel(
            f"transfers-{i}",
            f"{words.title(one.trial, JCT)}: {len(table)} of {len(one.table):,} transfers",
            _chart(study, one, table, start),
        )
        for i, (one, table, (start, _)) in enumerate(zip(shown, tables, spans, strict=True))
    ]
    labels = dict.fromkeys(one.cell.label for one in shown)
    there = set(frame["what"])
    return Question(
        "transfers",
        "Did transfers go as planned?",
        frame,
        tuple(panels),
        room.rest(told, _label, where="the folder transfers/"),
        DEFINED,
        (
            Key("as planned", plot.COMPUTE),
            *(Key(f"{label}, {Purpose.UPDATE.text}", plot.colour(study.run, label)) for label in labels),
            *(Key(purpose.text, shade) for purpose, shade in SHADES.items() if purpose.text in there),
        ),
        tuple(map(_row, room.chosen(told, _label))),
    )


def _label(shown: _Shown) -> str:
    return shown.cell.label


def _window(shown: _Shown) -> pd.DataFrame:
    """The first transfers after the warm-up, or the last ones, if fewer than a chart has room for come after it."""
    trial, called, warm_s = shown.trial, names(shown.trial), 0.0
    if trial.samples is not None and trial.warmup:
        warm_s = float(metrics.ends_s(trial.samples).loc[: trial.warmup - 1].max())
    first = int((shown.table["start_s"] < warm_s).sum())
    table = shown.table.iloc[max(0, min(first, len(shown.table) - MOST_BARS)) :].head(MOST_BARS)
    told = table[["members", "size_bytes", "start_s", "end_s", "arrived_s"]]
    sender, receiver = (table[end].map(lambda node: called.get(node, f"node {node}")) for end in ("from", "to"))
    what = table["purpose"].map(lambda purpose: Purpose(purpose).text)
    ends = pd.DataFrame({"row": range(len(table)), "from": sender.array, "to": receiver.array, "what": what.array})
    found = pd.concat([ends, told.reset_index(drop=True)], axis=1)
    found = found.sort_values(["what", "row"], ignore_index=True)  # the rows of a trace follow each other
    known: dict[str, Any] = {"arm": shown.cell.label, **shown.cell.point, "repeat": trial.repeat + 1}
    return found.assign(**known)[[*known, *found]]


def _chart(study: Study, shown: _Shown, table: pd.DataFrame, start: int) -> plot.Figure:
    count, end_s = len(table), float(table[["end_s", "arrived_s"]].max().max())
    traces = [_bars((start, start + count), "as planned", "end_s", plot.COMPUTE, upper=True)]
    shades = {purpose.text: shade for purpose, shade in SHADES.items()}
    for what, rows in table.groupby("what", sort=False):
        shade = shades.get(str(what), plot.colour(study.run, shown.cell.label))
        span = (start + int(rows.index[0]), start + int(rows.index[-1]) + 1)
        traces.append(_bars(span, str(what), "arrived_s", shade, upper=False))
    by_row = table.sort_values("row")
    labels = [f"{sender} to {receiver}" for sender, receiver in zip(by_row["from"], by_row["to"], strict=True)]
    figure = plot.spans_figure(
        traces,
        [plot.text(label) for label in labels],
        "time since the trial's start (s)",
        (float(table["start_s"].min()), end_s),
        60 + ROW_PX * count,
        barmode="overlay",
    )
    figure["layout"]["yaxis"]["tickfont"] = {"size": 10}
    return plot.timed(figure, "x", end_s)


def _bars(rows: tuple[int, int], name: str, ends: str, shade: str, *, upper: bool) -> plot.Trace:
    went = "as planned" if upper else "as it went"
    hover = f"%{{customdata[0]}} to %{{customdata[1]}}: %{{customdata[2]}} (%{{customdata[3]}} updates)<br>{went}: "
    told = ["from", "to", "what", "members"]
    at = {"offset": -0.4 if upper else 0.0, "width": 0.36}
    return plot.spans(rows, "start_s", ends, shade, hover, told=told, name=name, **at)


def _beside(*values_s: float | None) -> str:
    return " / ".join(map(words.seconds, values_s))


def _row(shown: _Shown) -> Mapping[str, str]:
    """Write how well the plans of a whole trial were kept, and what planning took, if that was told."""
    late = late_shares(shown.table)
    kept = {
        "Later than planned, median": f"{late.median():+.1%}",
        "95th percentile": f"{late.quantile(0.95):+.1%}",
        f"Within {NEAR:.0%}": f"{(late.abs() <= NEAR).mean():.0%}",
    }
    known = shown.trial.metrics
    return {
        "Trial": words.marked(words.name(shown.trial), shown.cell, JCT),
        "Transfers": f"{len(shown.table):,}",
        **(dict.fromkeys(kept, words.UNKNOWN) if late.empty else kept),
        "Overtaking": f"{overtaken(shown.table):,}",
        "GST / predicted": _beside(known.gst_median_s, known.gst_predicted_s),
        "JCT / predicted": _beside(known.jct_s, known.jct_predicted_s),
        "To plan a batch, median / p99": _beside(known.scheduler_median_s, known.scheduler_p99_s),
    }
