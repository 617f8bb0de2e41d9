"""How good was the model after how many mini-batches, and when (MLfabric, fig. 7)?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pandas as pd

from testbed.analysis import metrics
from testbed.analysis.numbers.goal import Quality
from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, room, words
from testbed.analysis.report.cells import MeasuredCell, Study
from testbed.analysis.report.question import Panel, Question
from testbed.analysis.report.questions.learning import accuracy_curve, quality_of, thinned

Curves: TypeAlias = Sequence[tuple[MeasuredCell, pd.DataFrame]]

MOST_SETTINGS = 6
"""Each has two panels."""
BATCHES, TIME = "mini_batches", "time_s"
AXES = {BATCHES: "mini-batches of a worker", TIME: "time since the trial's start (s)"}
DEFINED = (
    "{defined} A point is an iteration; of updates, as many applied ones as there are workers. Mini-batches are those "
    "that a worker had computed by then, on average: dropped updates are among them. Time runs from the trial's start "
    "to the end of the last worker's iteration. With several repeats, the one with the median JCT is drawn."
)


def by_iteration_and_time(study: Study) -> Question | None:
    """Two panels for each of the first settings, with a line an arm."""
    shown = [
        [(cell, curve) for cell in cells if (curve := _curve(cell.typical)) is not None] for cells in study.settings
    ]
    shown = [curves for curves in shown if curves]
    if not shown:
        return None
    every = [one for curves in shown for one in curves]
    good = quality_of([cell for cell, _ in every])
    tables, panels, start = [], [], 0
    for i, curves in enumerate(shown[:MOST_SETTINGS]):
        rows = []
        for cell, curve in curves:
            known = {key: value for key, value in plot.identity(cell, None, JCT).items() if key != "trials"}
            tables.append(curve.assign(**known)[[*known, *curve]])
            rows.append((start, start + len(curve)))
            start += len(curve)
        where = words.where(curves[0][0]).removesuffix(": ") or "Every arm"
        panels += [
            Panel(f"learning-curves-{i}-{axis}", f"{where}: by {noun}", _figure(study, curves, rows, axis, good))
            for axis, noun in ((BATCHES, "mini-batches"), (TIME, "time"))
        ]
    more = f" Drawn are the first {MOST_SETTINGS} of {len(shown)} settings." if len(shown) > MOST_SETTINGS else ""
    return Question(
        "learning-curves",
        f"How did the {good.noun} rise?",
        pd.concat(tables, ignore_index=True),
        tuple(panels),
        room.rest(every, room.of_pair, where="the trials' JSON"),
        DEFINED.format(defined=good.defined) + more,
        plot.dashes(study.run),
        tuple(_row(cell, curve, good) for cell, curve in room.chosen(every, room.of_pair)),
    )


def _curve(trial: Trial | None) -> pd.DataFrame | None:
    """``iteration``, ``mini_batches``, ``time_s`` and ``quality``; None where it is not known."""
    curve = None if trial is None else accuracy_curve(trial)
    if trial is None or trial.samples is None or curve is None:
        return None
    done = metrics.mini_batches(trial.samples)
    return thinned(curve.assign(mini_batches=done).rename_axis("iteration").reset_index())


def _figure(study: Study, curves: Curves, rows: Sequence[tuple[int, int]], axis: str, good: Quality) -> plot.Figure:
    traces = [_line(study, cell, at, axis, good) for (cell, _), at in zip(curves, rows, strict=True)]
    figure = plot.lines_figure(traces, AXES[axis], _titled(good), x_from_0=True, y_from_0=False)
    if good.form.endswith("%"):
        figure["layout"]["yaxis"] |= {"tickformat": ".0%"}
    if axis == BATCHES:
        return figure
    return plot.timed(figure, "x", max(float(curve[TIME].max()) for _, curve in curves))


def _titled(good: Quality) -> str:
    return good.noun if good.form.endswith("%") else f"log-{good.noun} of a token (nats)"


def _line(study: Study, cell: MeasuredCell, rows: tuple[int, int], axis: str, good: Quality) -> plot.Trace:
    return plot.curve(
        *(study.run, cell.label, rows, axis, "quality"),
        customdata={"columns": ["arm", *AXES]},
        hovertemplate=f"%{{customdata[0]}}<br>%{{customdata[1]:.4g}} mini-batches, %{{customdata[2]:.4g}} s: "
        f"{good.noun} %{{y:{good.form}}}<extra></extra>",
    )


def _row(cell: MeasuredCell, curve: pd.DataFrame, good: Quality) -> dict[str, str]:
    """Write where an arm ended."""
    last = curve.iloc[-1]
    return {
        "Arm": words.row_name(cell, JCT),
        f"{good.noun.capitalize()} in the end": good.text(float(last["quality"])),
        "Mini-batches of a worker": f"{last[BATCHES]:.3g}",
        "Time": words.seconds(float(last[TIME])),
    }
