"""How long did scripts wait for their collectives, and how fast were these?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pandas as pd

from analysis.recorded import Collective, Trial
from analysis.repeats import GST
from analysis.report import plot, words
from analysis.report.cells import Group, MeasuredCell, Study
from analysis.report.question import Key, Question, column
from testbed.base.units import rate_text

MOST_SHOWN = 6
"""Kinds and sizes of collectives of an arm in the table: those that moved most."""
GLOO = "gloo"
"""The scheme whose losses those of other arms are put beside."""
EXPOSED_DEFINED = (
    "Exposed is the time of an iteration for which a script waited for collectives. Hidden is the time for which "
    "collectives were on their way while the script did something else. DDP's waits are not seen: they count from a "
    "rank's last bucket to its last sum. Both are means over the ranks, and medians over the iterations after the "
    "warm-up. Apart from Gloo's is the largest difference between the losses of an iteration and those of the arm with "
    "the scheme gloo, as a share of the latter."
)
COLLECTIVES_DEFINED = (
    "Of each arm, the kinds and sizes of collectives that moved most bytes. Time is the median from the last rank that "
    "asked for a collective to the last rank that had it. A sum that is on its way with others takes longer. algbw is "
    "size over time, and busbw is algbw times the factor that nccl-tests has for the kind of collective. The limit is "
    "what the busiest link takes for the bytes."
)

Named: TypeAlias = tuple[MeasuredCell, Trial]


def exposed(study: Study) -> Question | None:
    """A bar a cell with exposed and hidden communication, and a table with losses beside Gloo's."""
    groups = study.having(lambda cell: _typical(cell) is not None)
    if not groups:
        return None
    cells = [cell for group in groups for cell in group.cells]
    rows = [
        plot.identity(cell, study.along, GST) | {name: cell.middle(name) for name in ("exposed_s", "hidden_s")}
        for cell in cells
    ]
    frame = pd.DataFrame(rows)
    frame["both_s"] = frame["exposed_s"] + frame["hidden_s"]
    return Question(
        "exposed",
        "How long did scripts wait for communication?",
        frame,
        plot.panels("exposed", groups, lambda group, start: _figure(study, group, start, frame)),
        (),
        EXPOSED_DEFINED,
        (*plot.legend(study.run, study.along), Key("hidden", plot.COMPUTE)),
        tuple(_row(study, cell) for cell in cells[: words.MOST_ROWS]),
    )


def _typical(cell: MeasuredCell) -> Trial | None:
    trial = cell.typical_in(GST)
    return trial if trial is not None and trial.metrics.exposed_s is not None else None


def _figure(study: Study, group: Group, start: int, frame: pd.DataFrame) -> plot.Figure:
    traces: list[plot.Trace] = []
    for y, cell in enumerate(group.cells):
        row, valid = (start + y, start + y + 1), cell.valid_in(GST)
        traces.append(plot.bar(row, y, "exposed_s", plot.colour(study.run, cell.label), valid, "exposed"))
        hidden = {"x": column("hidden_s")}
        traces.append(plot.bar(row, y, "both_s", plot.COMPUTE, valid, "with hidden", **hidden))
    figure = plot.rows_figure(traces, group.cells, "of an iteration (s)", plot.from_zero(frame["both_s"]), GST)
    return plot.timed(figure, "x", float(frame["both_s"].max()))


def _row(study: Study, cell: MeasuredCell) -> dict[str, str]:
    values = {name: cell.middle(name) for name in ("iteration_median_s", "exposed_s", "hidden_s", "throughput_sps")}
    apart = _apart(study, cell)
    return {
        "Arm": cell.label,
        "Iteration": _seconds(values["iteration_median_s"]),
        "Exposed": _seconds(values["exposed_s"]),
        "Hidden": _seconds(values["hidden_s"]),
        "Samples/s": words.UNKNOWN if values["throughput_sps"] is None else f"{values['throughput_sps']:.4g}",
        "Losses apart from Gloo's": words.UNKNOWN if apart is None else f"{apart:.1e}",
    }


def _seconds(value: float | None) -> str:
    return words.UNKNOWN if value is None else words.seconds(value)


def _apart(study: Study, cell: MeasuredCell) -> float | None:
    """The largest difference of the losses of a cell from those of Gloo's arm at the same setting, as a share."""
    mine = _losses(_typical(cell))
    for other in study.cells:
        trial = _typical(other)
        if other.setting == cell.setting and trial is not None and trial.scheme.partition("(")[0] == GLOO:
            theirs = _losses(trial)
            if mine is None or theirs is None:
                return None
            apart = ((mine - theirs).abs() / theirs.abs()).dropna()
            return None if apart.empty else float(apart.max())
    return None


def _losses(trial: Trial | None) -> pd.Series[float] | None:
    """By iteration, the mean loss of the ranks that told theirs."""
    if trial is None or trial.samples is None:
        return None
    losses = pd.to_numeric(trial.samples["loss"], errors="coerce")
    return losses.groupby(trial.samples["iteration"]).mean()


def collectives(study: Study) -> Question | None:
    """A table with the collectives of each arm that moved most, no figure."""
    found = [(cell, trial) for cell in study.cells if (trial := cell.typical) is not None and trial.collectives]
    if not found:
        return None
    shown = [(cell, one) for cell, trial in found for one in _largest(trial)]
    return Question(
        "collectives",
        "How fast were the collectives of scripts?",
        pd.DataFrame(_columns(cell, one) for cell, one in shown),
        (),
        (),
        COLLECTIVES_DEFINED,
        (),
        tuple(_told(cell, one) for cell, one in shown[: words.MOST_ROWS]),
    )


def _largest(trial: Trial) -> Sequence[Collective]:
    ordered = sorted(trial.collectives, key=lambda one: -one.bytes * one.count)
    return [one for one in ordered if one.bytes][:MOST_SHOWN]


def _columns(cell: MeasuredCell, one: Collective) -> dict[str, Any]:
    return {"arm": cell.label, "batch": cell.batch, **cell.point, **vars(one)}


def _told(cell: MeasuredCell, one: Collective) -> dict[str, str]:
    return {
        "Arm": cell.label,
        "Collective": f"{one.op} of {words.amount(one.bytes)}" + ("" if one.by == "scheme" else f" ({one.by})"),
        "Count": f"{one.count:,}",
        "Time": words.seconds(one.median_s),
        "algbw": _rate(one.algbw_bps),
        "busbw": _rate(one.busbw_bps),
        "Time / limit": words.ratio(one.median_s / one.least_s) if one.least_s else words.UNKNOWN,
    }


def _rate(rate_bps: float | None) -> str:
    return words.UNKNOWN if rate_bps is None else words.unbroken(rate_text(float(f"{rate_bps:.3g}")))
