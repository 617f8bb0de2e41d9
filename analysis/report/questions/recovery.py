"""How did trials go on after losses, and what did checkpoints cost?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import pandas as pd

from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.record.happened import Checkpoints, Loss
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, room, words
from testbed.analysis.report.cells import Group, MeasuredCell, Study
from testbed.analysis.report.question import Key, Panel, Question

Lost: TypeAlias = tuple[MeasuredCell, Trial, Loss]

UNNOTICED = "#5b6673"
"""The colour of the time until a loss was noticed; that of the time until the next commit is the arm's."""
MOST_PANELS = 12
MOST_TICKS = 8
"""Ticks of an axis at most."""
DEFINED = (
    "A bar begins when a process was hit. Its first part, in grey, ends when the others noticed that they had lost it, "
    "the second when weights were changed next. Of each arm at each setting, the trial with the median JCT is drawn; "
    "the longest times are those of all repeats that JCT is from. Lost updates were decided by a server that was "
    "lost, and are in no weights. When a replica took over, the distance is that of its weights from the lost "
    "server's, beside what MLfabric's equation 11 gives for what it lacked, and the arm's bound. Roundings add to it: "
    "server and replica sum other updates together."
)

CHECKPOINTS_DEFINED = (
    "Checkpoints are weights that were really written. A process that writes does nothing else. Shown is for how long "
    "the process that took longest wrote in all, as a share of the trial's JCT. Of each arm at each setting, the trial "
    "in the middle by JCT is considered."
)


def from_losses(study: Study) -> Question | None:
    """A bar and a row of a table for each loss of each arm's typical trial."""
    found: list[Lost] = [
        (cell, cell.typical, loss) for cell in study.cells if cell.typical is not None for loss in cell.typical.losses
    ]
    if not found:
        return None
    shown = room.chosen(found, room.of_pair)
    others = [one for one in found if not any(one is other for other in shown)]
    frame = pd.DataFrame(_columns(study, *one) for one in (*shown, *others))
    more = f" Drawn are {len(shown)} of {len(found)} losses." if others else ""
    seen = words.by_networks([cell for cell in study.cells if _times(cell)], JCT, _longest)
    return Question(
        "recovery",
        "How did trials go on after losses?",
        frame,
        (Panel("recovery", "From the hit to the next commit", _figure(study, shown, frame)),),
        (*room.rest(found, room.of_pair), *seen),
        DEFINED + more,
        (Key("hit, not noticed yet", UNNOTICED), *plot.legend(study.run, None)),
        tuple(_row(*one) for one in shown),
    )


def _columns(study: Study, cell: MeasuredCell, trial: Trial, loss: Loss) -> dict[str, object]:
    noticed_s = None if loss.noticed_s is None or loss.hit_s is None else max(0.0, loss.noticed_s - loss.hit_s)
    took_over = _took_over(trial, loss)
    return plot.identity(cell, study.along, JCT) | {
        "node": loss.node,
        "role": _role(loss),
        "hit_s": loss.hit_s,
        "until_noticed_s": noticed_s,
        "until_commit_s": loss.recovered_s,
        "lost_updates": _lost(trial, loss),
        "distance": trial.accuracy.takeover_apart if took_over else None,
        "distance_allowed": trial.metrics.takeover_bound if took_over else None,
    }


def _role(loss: Loss) -> str:
    return " and ".join(loss.roles) or words.UNKNOWN


def _took_over(trial: Trial, loss: Loss) -> bool:
    """Whether a replica served after this loss."""
    return trial.metrics.takeover_behind is not None and "server" in loss.roles


def _lost(trial: Trial, loss: Loss) -> int:
    """Count the updates that are in no weights after a loss."""
    return round(trial.metrics.takeover_lost or 0) if _took_over(trial, loss) else len(loss.lost_updates)


def _figure(study: Study, shown: list[Lost], frame: pd.DataFrame) -> plot.Figure:
    bars = []
    for row, (cell, _, _) in enumerate(shown):
        own, valid = plot.colour(study.run, cell.label), cell.valid_in(JCT)
        bars.append(plot.bar((row, row + 1), row, "until_noticed_s", UNNOTICED, valid, "noticed after"))
        bars.append(plot.bar((row, row + 1), row, "until_commit_s", own, valid, "next commit after"))
    whole_s = frame[["until_noticed_s", "until_commit_s"]].astype(float).sum(axis=1)[: len(shown)]
    span = plot.from_zero(whole_s, 1.05)
    figure = plot.rows_figure(bars, [cell for cell, _, _ in shown], "time since the hit (s)", span, JCT)
    figure["layout"]["yaxis"]["ticktext"] = [plot.tick(f"{cell.label}: {loss.node}") for cell, _, loss in shown]
    return plot.timed(figure, "x", float(whole_s.max()))


def _row(cell: MeasuredCell, trial: Trial, loss: Loss) -> dict[str, str]:
    return {
        "Arm": words.row_name(cell, JCT),
        "Lost": f"{_role(loss)} ({loss.node})",
        "Hit at": words.seconds(loss.hit_s),
        "Noticed at": words.seconds(loss.noticed_s),
        "Next commit": words.UNKNOWN if loss.recovered_s is None else f"{words.seconds(loss.recovered_s)} later",
        "Lost updates": f"{_lost(trial, loss):,}",
        "Distance at takeover": _distance(trial) if _took_over(trial, loss) else "",
    }


def _distance(trial: Trial) -> str:
    found, metrics = trial.accuracy, trial.metrics
    if found.takeover_apart is None:
        return words.UNKNOWN
    most = None if metrics.takeover_bound is None else metrics.takeover_bound + (found.takeover_rounded or 0.0)
    limits = {"at most {:.2g} by eq. 11 and roundings": most, "bound {:.3g}": metrics.divergence_allowed}
    told = [text.format(limit) for text, limit in limits.items() if limit is not None]
    return "; ".join([f"{found.takeover_apart:.3g}", *told])


def _times(cell: MeasuredCell) -> list[tuple[float, Loss]]:
    """Return how long (s) it took until weights changed after each loss, in all repeats that JCT is from."""
    losses = [loss for trial in cell.counted(JCT) for loss in trial.losses]
    return [(loss.recovered_s, loss) for loss in losses if loss.recovered_s is not None]


def _longest(network: str, cells: Sequence[MeasuredCell]) -> list[str]:
    times = [(time_s, cell, loss) for cell in cells for time_s, loss in _times(cell)]
    longest_s, cell, loss = max(times, key=lambda pair: pair[0])
    on = f"On {network}, from" if network else "From"
    took = f"{on} notice to the next commit it took {words.seconds(longest_s)} at most"
    return [f"{took}, when {words.in_cell(cell)} had lost a {_role(loss)}."]


def cost(study: Study) -> Question | None:
    """A bar a cell with the share of JCT for which a process wrote checkpoints, a panel for each setting."""
    groups = study.settings_having(_written)
    if not groups:
        return None
    shown = groups[:MOST_PANELS]
    cells = [cell for group in groups for cell in group.cells]
    more = f" Drawn are the first {len(shown)} of {len(groups)} settings." if len(groups) > len(shown) else ""
    return Question(
        "checkpoints",
        "What did checkpoints cost?",
        pd.DataFrame(plot.identity(cell, study.along, JCT) | _wrote(cell) for cell in cells),
        plot.panels("checkpoints", shown, lambda group, first: _shares(study, group, first)),
        room.rest(cells),
        f"{CHECKPOINTS_DEFINED}{more}",
        (),
        tuple(_wrote_row(cell) for cell in room.chosen(cells)),
    )


def _written(cell: MeasuredCell) -> Checkpoints | None:
    """Return what a typical trial wrote; None where no checkpoints are asked for."""
    return None if cell.typical is None else cell.typical.checkpoints


def _wrote(cell: MeasuredCell) -> dict[str, float]:
    trial, wrote = cell.typical, _written(cell)
    assert trial is not None
    assert wrote is not None  # others were left out
    jct_s = trial.metrics.jct_s
    return {**vars(wrote), "share_of_jct": wrote.longest_s / jct_s if jct_s else float("nan")}


def _shares(study: Study, group: Group, first: int) -> plot.Figure:
    bars = [
        plot.bar(
            (row, row + 1),
            row - first,
            "share_of_jct",
            plot.colour(study.run, cell.label),
            cell.valid_in(JCT),
            "",
            hovertemplate="%{customdata[0]}<br>%{x:.1%} of JCT<extra></extra>",
        )
        for row, cell in enumerate(group.cells, first)
    ]
    most = max(_wrote(cell)["share_of_jct"] for cell in group.cells)
    figure = plot.rows_figure(bars, group.cells, "share of JCT that was spent writing", (0.0, 1.05 * most or 1.0), JCT)
    figure["layout"]["xaxis"] |= {"tickformat": tick_format(1.05 * most)}
    return figure


def tick_format(most: float) -> str:
    """Choose the format of shares from 0 to ``most``: percent, with as many digits as tell its ticks apart."""
    digits = max(0, -math.floor(math.log10(most * 100 / MOST_TICKS))) if most > 0 else 0
    return f".{digits}%"


def _wrote_row(cell: MeasuredCell) -> dict[str, str]:
    known = _wrote(cell)
    return {
        "Arm": words.row_name(cell, JCT),
        "Processes that wrote": f"{known['processes']:,}",
        "Checkpoints of each": f"{known['count']:,}",
        "Written in all": words.amount(known["bytes"]),
        "Longest time": words.seconds(known["longest_s"]),
        "Share of JCT": f"{known['share_of_jct']:.1%}",
    }
