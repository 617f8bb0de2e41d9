"""Did transfers go as planned, where somebody plans them?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from testbed.analysis import metrics
from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, room, words
from testbed.analysis.report.cells import MeasuredCell, Study
from testbed.analysis.report.networks import names
from testbed.analysis.report.question import Key, Panel, Question, column, rounded
from testbed.analysis.tables.transfers import NEAR, late_shares, overtaken
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
    told = list(_having(study))
    if not told:
        return None
    drawn_of = room.chosen(told, _label, MOST_PANELS)
    tables, panels, start = [], [], 0
    for i, one in enumerate(drawn_of):
        table = _window(one)
        known: dict[str, Any] = {"arm": one.cell.label, **one.cell.point, "repeat": one.trial.repeat + 1}
        tables.append(table.assign(**known)[[*known, *table]])
        caption = f"{words.title(one.trial, JCT)}: {len(table)} of {len(one.table):,} transfers"
        panels.append(Panel(f"transfers-{i}", caption, _chart(study, one, table, start)))
        start += len(table)
    drawn = pd.concat(tables, ignore_index=True)
    return Question(
        "transfers",
        "Did transfers go as planned?",
        drawn,
        tuple(panels),
        room.rest(told, _label, where="the folder transfers/"),
        DEFINED,
        _legend(study, drawn_of, drawn),
        tuple(map(_row, room.chosen(told, _label))),
    )


def _having(study: Study) -> Iterator[_Shown]:
    for cell in study.cells:
        trial = cell.typical
        table = None if trial is None else trial.transfers
        if trial is not None and table is not None and len(table):
            yield _Shown(cell, trial, table)


def _label(shown: _Shown) -> str:
    return shown.cell.label


def _window(shown: _Shown) -> pd.DataFrame:
    """The first transfers after the warm-up, or the last ones, if fewer than a chart has room for come after it."""
    called = names(shown.trial)
    first = int((shown.table["start_s"] < _warm_s(shown.trial)).sum())
    table = shown.table.iloc[max(0, min(first, len(shown.table) - MOST_BARS)) :].head(MOST_BARS)
    told = table[["members", "size_bytes", "start_s", "end_s", "arrived_s"]]
    sender, receiver = (table[end].map(lambda node: called.get(node, f"node {node}")) for end in ("from", "to"))
    what = table["purpose"].map(lambda purpose: Purpose(purpose).text)
    ends = pd.DataFrame({"row": range(len(table)), "from": sender.array, "to": receiver.array, "what": what.array})
    found = pd.concat([ends, told.reset_index(drop=True)], axis=1)
    return found.sort_values(["what", "row"], ignore_index=True)  # the rows of a trace follow each other


def _warm_s(trial: Trial) -> float:
    """Return when the warm-up was over (s), from the trial's start."""
    if trial.samples is None or not trial.warmup:
        return 0.0
    ends_s = metrics.ends_s(trial.samples)
    return float(ends_s.loc[: trial.warmup - 1].max())


def _chart(study: Study, shown: _Shown, table: pd.DataFrame, start: int) -> plot.Figure:
    count, end_s = len(table), float(table[["end_s", "arrived_s"]].max().max())
    traces = [_bars([start, start + count], "as planned", "end_s", plot.COMPUTE, upper=True)]
    for what, rows in table.groupby("what", sort=False):
        shade = _shade(study, shown, str(what))
        span = [start + int(rows.index[0]), start + int(rows.index[-1]) + 1]
        traces.append(_bars(span, str(what), "arrived_s", shade, upper=False))
    by_row = table.sort_values("row")
    labels = [f"{sender} to {receiver}" for sender, receiver in zip(by_row["from"], by_row["to"], strict=True)]
    layout = {
        "barmode": "overlay",
        "xaxis": {
            "title": {"text": "time since the trial's start (s)"},
            "range": [rounded(float(table["start_s"].min())), rounded(end_s)],
        },
        "yaxis": {
            "tickvals": list(range(count)),
            "ticktext": [plot.text(label) for label in labels],
            "tickfont": {"size": 10},
            "range": [count - 0.4, -0.6],
            "showgrid": False,
        },
    }
    return plot.timed(plot.finished(traces, layout | {"shapes": []}, 60 + ROW_PX * count), "x", end_s)


def _bars(rows: Sequence[int], name: str, ends: str, shade: str, *, upper: bool) -> plot.Trace:
    return {
        "type": "bar",
        "name": name,
        "orientation": "h",
        "rows": list(rows),
        "base": column("start_s"),
        "x": column(ends, minus="start_s"),
        "y": column("row"),
        "offset": -0.4 if upper else 0.0,
        "width": 0.36,
        "marker": {"color": shade, "line": {"width": 0}},
        "customdata": {"columns": ["from", "to", "what", "members"]},
        "hovertemplate": "%{customdata[0]} to %{customdata[1]}: %{customdata[2]} (%{customdata[3]} updates)<br>"
        f"{'as planned' if upper else 'as it went'}: %{{x:.4g}} s from %{{base:.4g}} s<extra></extra>",
    }


def _shade(study: Study, shown: _Shown, what: str) -> str:
    others = {purpose.text: shade for purpose, shade in SHADES.items()}
    return others.get(what, plot.colour(study.run, shown.cell.label))


def _legend(study: Study, shown: Sequence[_Shown], drawn: pd.DataFrame) -> tuple[Key, ...]:
    labels = dict.fromkeys(one.cell.label for one in shown)
    there = set(drawn["what"])
    return (
        Key("as planned", plot.COMPUTE),
        *(Key(f"{label}, {Purpose.UPDATE.text}", plot.colour(study.run, label)) for label in labels),
        *(Key(purpose.text, shade) for purpose, shade in SHADES.items() if purpose.text in there),
    )


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
    plan = _beside(known.scheduler_median_s, known.scheduler_p99_s)
    return {
        "Trial": words.marked(words.name(shown.trial), shown.cell, JCT),
        "Transfers": f"{len(shown.table):,}",
        **(dict.fromkeys(kept, words.UNKNOWN) if late.empty else kept),
        "Overtaking": f"{overtaken(shown.table):,}",
        "GST / predicted": _beside(known.gst_median_s, known.gst_predicted_s),
        "JCT / predicted": _beside(known.jct_s, known.jct_predicted_s),
        "To plan a batch, median / p99": plan,
    }
