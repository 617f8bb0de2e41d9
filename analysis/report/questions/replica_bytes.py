"""How many bytes did the replica get, by how far behind it might be (MLfabric, fig. 9)?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate, groupby

import pandas as pd

from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study, believed, by_network
from testbed.analysis.report.question import Panel, Question, column

BYTES = "replica_bytes"
BOUNDS = {
    "replica_behind_allowed": "bound (updates)",
    "divergence_allowed": "bound of the divergence (norm)",
}
"""Name of the axis of an arm's bound, by the metric that has the bound."""
UNITS = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
DEFINED = (
    "Bytes are those of the updates and sums that the replica got in the whole trial. A higher bound lets updates wait "
    "for each other, so that more of them are summed on their way. Arms that have a bound of the same kind are drawn "
    "together."
)


def by_bound(study: Study) -> Question | None:
    """Bytes over the bound, if arms differ in it; a panel for each group and kind of bound."""
    groups = [
        (bound, Group(group.title, tuple(sorted(group.cells, key=lambda cell: _place(study, cell, bound)))))
        for bound in BOUNDS
        for group in study.having(partial(_has, bound))
    ]
    groups = [(bound, group) for bound, group in groups if len({cell.middle(bound) for cell in group.cells}) > 1]
    if not groups:
        return None
    cells = [(bound, cell) for bound, group in groups for cell in group.cells]
    frame = pd.DataFrame(_row(study, bound, cell) for bound, cell in cells)
    factor, unit = next(one for one in UNITS if one[0] <= frame[BYTES].max() or one[0] == 1.0)
    starts = accumulate((len(group.cells) for _, group in groups), initial=0)
    panels = [
        Panel(f"replica-bytes-{i}", _caption(groups, bound, group), _figure(study, bound, group, first, (factor, unit)))
        for i, ((bound, group), first) in enumerate(zip(groups, starts, strict=False))  # the last is where it ends
    ]
    shown = {cell.label for _, cell in cells}
    return Question(
        "replica-bytes",
        "How many bytes did the replica get?",
        frame,
        tuple(panels),
        tuple(told for bound, group in groups for told in _seen(bound, group)),
        f"{DEFINED} {words.INTERVALS}",
        tuple(key for key in plot.dashes(study.run) if key.label in shown),
    )


def _has(bound: str, cell: MeasuredCell) -> bool:
    return None not in (cell.middle(bound), cell.middle(BYTES))


def _place(study: Study, cell: MeasuredCell, bound: str) -> tuple[int, float]:
    """Return a key that places a cell in the table: cells of an arm are a line, from the least bound on."""
    return study.run.labels.index(cell.label), cell.middle(bound) or 0.0


def _row(study: Study, bound: str, cell: MeasuredCell) -> dict[str, object]:
    known = plot.identity(cell, study.along, JCT)
    return known | {"bound of": bound, "bound": cell.middle(bound)} | words.columns(BYTES, cell.median(BYTES))


def _caption(groups: Sequence[tuple[str, Group]], bound: str, group: Group) -> str:
    """The setting, and which kind of bound, where there are both."""
    kinds = {one for one, _ in groups}
    return f"{group.title}: {BOUNDS[bound]}" if len(kinds) > 1 else group.title


def _figure(study: Study, bound: str, group: Group, first: int, unit: tuple[float, str]) -> plot.Figure:
    traces: list[plot.Trace] = []
    for label, members in groupby(group.cells, key=lambda cell: cell.label):
        cells = list(members)
        rows = [first, first + len(cells)]
        first += len(cells)
        traces.append(_line(study, label, cells, rows, unit))
    figure = plot.lines_figure(traces, BOUNDS[bound], f"bytes to the replica ({unit[1]})", x_from_0=True)
    figure["layout"]["xaxis"] |= plot.ticks(cell.middle(bound) or 0.0 for cell in group.cells)
    return figure


def _line(
    study: Study, label: str, cells: Sequence[MeasuredCell], rows: Sequence[int], unit: tuple[float, str]
) -> plot.Trace:
    factor, name = unit
    shade = plot.colour(study.run, label)
    error = plot.error(BYTES)
    error |= {key: one | {"times": 1 / factor} for key in ("array", "arrayminus") if (one := error.get(key))}
    return {
        "type": "scatter",
        "name": plot.text(label),
        "mode": "lines+markers",
        "rows": list(rows),
        "x": column("bound"),
        "y": {**column(BYTES), "times": 1 / factor},
        "error_y": error,
        "line": {"color": shade, "dash": plot.dash(study.run, label), "width": 2},
        "marker": {"size": 9, "color": shade, "symbol": ["circle" if cell.valid_in(JCT) else "x" for cell in cells]},
        "customdata": {"columns": ["arm", "verdict"]},
        "hovertemplate": f"%{{customdata[0]}} (%{{customdata[1]}})<br>bound %{{x}}: %{{y:.4g}} {name}<extra></extra>",
    }


def _seen(bound: str, group: Group) -> list[str]:
    """The fewest bytes and the most, of each network by itself."""
    cells, _ = believed(group.cells, JCT)
    told = []
    for network, of in by_network(cells).items():
        most, fewest = (take(of, key=lambda cell: cell.middle(BYTES) or 0.0) for take in (max, min))
        if most is fewest:
            continue
        got = [
            f"{words.amount(cell.middle(BYTES) or 0.0)} with a bound of {_text(bound, cell)} ({words.in_cell(cell)})"
            for cell in (fewest, most)
        ]
        ratio = (most.middle(BYTES) or 0.0) / (fewest.middle(BYTES) or 1.0)
        on = f"On {network}, the" if network else "The"
        told.append([f"{on} replica got from {got[0]} to {got[1]}: {ratio:.3g} times as many."])
    return words.of_networks(told) + words.not_told(group.cells, JCT)


def _text(bound: str, cell: MeasuredCell) -> str:
    value = cell.middle(bound)
    return f"{value:.0f} updates" if bound == "replica_behind_allowed" else f"{value:.3g}"
