"""Questions about checkpoints: what did they cost the arms that write them?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import pandas as pd

from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.record.happened import Checkpoints
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, room, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study
from testbed.analysis.report.question import Question

Writing: TypeAlias = tuple[Trial, Checkpoints]

MOST_PANELS = 12
MOST_TICKS = 8
"""Ticks of an axis at most."""
DEFINED = (
    "Checkpoints are weights that were really written. A process that writes does nothing else. Shown is for how long "
    "the process that took longest wrote in all, as a share of the trial's JCT. Of each arm at each setting, the trial "
    "in the middle by JCT is considered."
)


def cost(study: Study) -> Question | None:
    """A bar a cell with the share of JCT for which a process wrote, a panel for each setting."""
    groups = study.settings_having(_written)
    if not groups:
        return None
    shown = groups[:MOST_PANELS]
    cells = [cell for group in groups for cell in group.cells]
    more = f" Drawn are the first {len(shown)} of {len(groups)} settings." if len(groups) > len(shown) else ""
    return Question(
        "checkpoints",
        "What did checkpoints cost?",
        pd.DataFrame(plot.identity(cell, study.along, JCT) | _columns(cell) for cell in cells),
        plot.panels("checkpoints", shown, lambda group, first: _bars(study, group, first)),
        room.rest(cells),
        f"{DEFINED}{more}",
        (),
        tuple(_row(cell) for cell in room.chosen(cells)),
    )


def _written(cell: MeasuredCell) -> Writing | None:
    """Return the typical trial and what it wrote; None where no checkpoints are asked for."""
    trial = cell.typical
    return None if trial is None or trial.checkpoints is None else (trial, trial.checkpoints)


def _known(cell: MeasuredCell) -> Writing:
    found = _written(cell)
    assert found is not None  # others were left out
    return found


def _columns(cell: MeasuredCell) -> dict[str, float]:
    trial, wrote = _known(cell)
    known = vars(wrote)
    return {**known, "share_of_jct": wrote.longest_s / trial.metrics.jct_s if trial.metrics.jct_s else float("nan")}


def _bars(study: Study, group: Group, first: int) -> plot.Figure:
    bars = [
        plot.bar(
            (first + row, first + row + 1),
            row,
            "share_of_jct",
            plot.colour(study.run, cell.label),
            cell.valid_in(JCT),
            "",
            hovertemplate="%{customdata[0]}<br>%{x:.1%} of JCT<extra></extra>",
        )
        for row, cell in enumerate(group.cells)
    ]
    most = max(_columns(cell)["share_of_jct"] for cell in group.cells)
    figure = plot.rows_figure(bars, group.cells, "share of JCT that was spent writing", (0.0, 1.05 * most or 1.0), JCT)
    figure["layout"]["xaxis"] |= {"tickformat": tick_format(1.05 * most)}
    return figure


def tick_format(most: float) -> str:
    """Choose the format of shares from 0 to ``most``: percent, with as many digits as tell its ticks apart."""
    digits = max(0, -math.floor(math.log10(most * 100 / MOST_TICKS))) if most > 0 else 0
    return f".{digits}%"


def _row(cell: MeasuredCell) -> Mapping[str, str]:
    _, wrote = _known(cell)
    return {
        "Arm": words.row_name(cell, JCT),
        "Processes that wrote": f"{wrote.processes:,}",
        "Checkpoints of each": f"{wrote.count:,}",
        "Written in all": words.amount(wrote.bytes),
        "Longest time": words.seconds(wrote.longest_s),
        "Share of JCT": f"{_columns(cell)['share_of_jct']:.1%}",
    }
