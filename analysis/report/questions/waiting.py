"""How long did workers wait for the slowest one?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from testbed.analysis.numbers.repeats import WAITING
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study, notes
from testbed.analysis.report.question import Key, Question

DEFINED = (
    "In each iteration a worker waits from the moment it has its own gradient until the last worker has its gradient. "
    "Shown are the mean wait of all workers, and the mean wait of the worker that waited longest. GST begins when the "
    "last worker has its gradient, so waiting is not part of GST; it is part of the compute time. With several "
    "repeats, the one with the median JCT is shown."
)
LONGEST = "#6b7682"
"""Colour that can be seen on a light and on a dark page."""


def waits(study: Study) -> Question | None:
    """Mean and longest mean wait of each cell."""
    groups = study.having(lambda cell: (trial := cell.typical_in(WAITING)) and trial.samples is not None)
    if not groups:
        return None
    cells = [cell for group in groups for cell in group.cells]
    rows = [plot.identity(cell, study.along, WAITING) | _waits(cell) for cell in cells]
    frame = pd.DataFrame(rows)
    mark = () if study.along else (Key("longest mean wait of a worker", LONGEST),)
    row_of = {cell.place: row for cell, row in zip(cells, rows, strict=True)}

    def longest(network: str, of: Sequence[MeasuredCell]) -> list[str]:
        return [_longest(network, [(cell, row_of[cell.place]) for cell in of])]

    return Question(
        "waits",
        "How long did workers wait for the slowest one?",
        frame,
        plot.panels("waits", groups, lambda group, start: _figure(study, group, start, frame)),
        tuple(words.by_networks(cells, WAITING, longest)),
        DEFINED + notes(cells, "waiting"),
        (*plot.legend(study.run, study.along), *mark),
    )


def _waits(cell: MeasuredCell) -> dict[str, Any]:
    trial = cell.typical_in(WAITING)
    assert trial is not None  # others were left out
    waited = trial.waits_s
    assert waited is not None
    by_rank, often, share = waited.mean(), None, None
    if trial.kind.sums_together:  # else its workers are not in the same iteration together
        slowest = waited.idxmin(axis=1).value_counts()
        often, share = f"rank {slowest.index[0]}", float(slowest.iloc[0] / len(waited))
    return {
        "wait_s": float(by_rank.mean()),
        "wait_longest_s": float(by_rank.max()),
        "waited_longest": f"rank {by_rank.idxmax()}",
        "slowest_most_often": often,
        "slowest_in_share": share,
    }


def _figure(study: Study, group: Group, start: int, frame: pd.DataFrame) -> plot.Figure:
    if study.along:
        traces = plot.lines(study.run, group, start, study.along, "wait_s", "mean wait, s:", WAITING)
        for trace in traces:
            del trace["error_y"]
        figure = plot.along_figure(traces, study.along, group.cells, "mean wait (s)")
        return plot.timed(figure, "y", frame["wait_s"].max())
    traces = []
    for y, cell in enumerate(group.cells):
        row = (start + y, start + y + 1)
        shade = plot.colour(study.run, cell.label)
        traces.append(plot.bar(row, y, "wait_s", shade, cell.valid_in(WAITING), "mean wait"))
        longest = plot.dot(row, y, "wait_longest_s", LONGEST, True, "longest mean wait, s:")
        longest |= {"customdata": {"columns": ["arm", "waited_longest"]}, "marker": {"color": LONGEST, "size": 8}}
        longest["hovertemplate"] = "%{customdata[0]}<br>%{customdata[1]} waited longest: %{x:.4g} s<extra></extra>"
        del longest["error_x"]
        traces.append(longest)
    span = plot.from_zero(frame["wait_longest_s"], room=1.08)
    figure = plot.rows_figure(traces, group.cells, "wait (s)", span, WAITING)
    return plot.timed(figure, "x", frame["wait_longest_s"].max())


def _longest(network: str, waited: Sequence[tuple[MeasuredCell, dict[str, Any]]]) -> str:
    cell, most = max(waited, key=lambda pair: pair[1]["wait_s"])
    where = (
        f", where {most['slowest_most_often']} was the slowest in {most['slowest_in_share']:.0%} of the iterations"
        if most["slowest_most_often"] and most["wait_s"]
        else ""
    )
    on = f"On {network}, workers" if network else "Workers"
    took, name = f"{words.seconds(most['wait_s'])} on average", words.in_cell(cell)
    if len(waited) == 1:
        return f"{on} waited {took} in {name}{where}."
    return f"{on} waited longest in {name}: {took}{where}."
