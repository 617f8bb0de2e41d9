"""Question about pairs: what did servers send each other, where a strategy says who holds what?"""

from __future__ import annotations

from typing import Any

import pandas as pd

from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import MeasuredCell, Study
from testbed.analysis.report.question import Panel, Question, column, rounded
from testbed.analysis.report.questions.queues import SCALE

MOST_PANELS = 6
MOST_SERVERS = 64
"""Servers of a heat map at most: a pair takes 40 bytes of the page."""
DEFINED = (
    "Bytes that each server sent each other server in an iteration, without headers, as the sender counted them. "
    "Predicted bytes are those of the strategy: batch x floats of an output x 4 bytes for each edge between operators, "
    "forward and backward, and the gradients that groups of servers sum along their rings. Blank pairs sent nothing. "
    "Drawn is one trial of each arm: the one with the median JCT at its first setting. All have the same scale "
    "of colours. The predicted iteration is played, pass by pass and transfer by transfer, on links that nothing "
    "disturbs. MP wait is the time for which a server had nothing to compute because outputs of operators, or their "
    "gradients, had not come: its mean over servers, the median over iterations."
)


def exchanged(study: Study) -> Question | None:
    """Heat maps of servers by servers, measured beside predicted."""
    found: dict[str, tuple[MeasuredCell, Trial]] = {}
    for cell in study.cells:
        if cell.typical and cell.typical.pairs:
            found.setdefault(cell.label, (cell, cell.typical))
    if not found:
        return None
    trials = [trial for _, trial in found.values()]
    shown = [trial for trial in trials if trial.world <= MOST_SERVERS][:MOST_PANELS]
    frame, spans = plot.stacked([_table(trial) for trial in shown or trials])
    highest = float(frame["bytes"].max())
    panels = [
        Panel(f"pairs-{i}", f"{words.title(trial, JCT)}: measured, and predicted", _figure(trial, list(rows), highest))
        for i, (trial, rows) in enumerate(zip(shown, spans, strict=False))  # without any, the table has all
    ]
    left = len(trials) - len(shown)
    more = f" Drawn are {len(shown)} of {len(trials)} arms." if left else ""
    asked = "What did servers send each other, and was it what the strategy predicts?"
    return Question(
        "pairs", asked, frame, tuple(panels), (), DEFINED + more, told=tuple(_row(*one) for one in found.values())
    )


def _table(trial: Trial) -> pd.DataFrame:
    """A row for each pair; bytes of one iteration."""
    count = trial.iterations
    return pd.DataFrame(
        {
            "arm": trial.label,
            "batch": trial.batch,
            "from": [pair.source for pair in trial.pairs],
            "to": [pair.target for pair in trial.pairs],
            "bytes": [pair.bytes / count for pair in trial.pairs],
            "predicted_bytes": [pair.theory_bytes / count for pair in trial.pairs],
            "mp_bytes": [pair.mp_bytes / count for pair in trial.pairs],
        }
    )


def _figure(trial: Trial, rows: list[int], highest: float) -> plot.Figure:
    names = [plot.text(name) for name in dict.fromkeys([pair.source for pair in trial.pairs])]
    measured, predicted = (
        {
            "type": "heatmap",
            "rows": rows,
            "x": column("to"),
            "y": column("from"),
            "z": column(value),
            "text": column("mp_bytes"),
            "zmin": 0,
            "zmax": rounded(highest),
            "colorscale": SCALE,
            "hoverongaps": False,
            "hovertemplate": f"%{{y}} to %{{x}}, {what}: %{{z:,.0f}} B<br>"
            "outputs and their gradients: %{text:,.0f} B<extra></extra>",
            **more,
        }
        for value, what, more in (
            ("bytes", "measured", {"showscale": False}),
            (
                "predicted_bytes",
                "predicted",
                {"xaxis": "x2", "colorbar": {"title": {"text": "B"}, "thickness": 10, "outlinewidth": 0}},
            ),
        )
    )
    servers = {"type": "category", "categoryorder": "array", "categoryarray": names, "showgrid": False}
    layout: dict[str, Any] = {
        "xaxis": servers | {"domain": [0, 0.47], "title": {"text": "to (measured)"}},
        "xaxis2": servers | {"domain": [0.53, 1], "title": {"text": "to (predicted)", "font": {"size": 12}}},
        "yaxis": servers | {"autorange": "reversed", "title": {"text": "from"}},
    }
    return plot.finished([measured, predicted], layout, 110 + 18 * max(8, len(names)))


def _row(cell: MeasuredCell, trial: Trial) -> dict[str, str]:
    known, count = trial.metrics, trial.iterations
    measured, predicted = (sum(getattr(pair, name) for pair in trial.pairs) for name in ("bytes", "theory_bytes"))
    messages = sum(pair.mp_bytes for pair in trial.pairs)
    beside = known.iteration_median_s and known.iteration_predicted_s
    return {
        "Trial": words.marked(words.name(trial), cell, JCT),
        "Sent in an iteration": words.amount(measured / count),
        "Measured / predicted": words.ratio(measured / predicted) if predicted else words.UNKNOWN,
        "Outputs and their gradients": words.amount(messages / count),
        "Iteration": words.seconds(known.iteration_median_s),
        "Predicted": words.seconds(known.iteration_predicted_s),
        "Predicted / measured": words.ratio((known.iteration_predicted_s or 0) / (known.iteration_median_s or 1))
        if beside
        else words.UNKNOWN,
        "MP wait, forward": words.seconds(known.mp_wait_forward_s),
        "MP wait, backward": words.seconds(known.mp_wait_backward_s),
    }
