"""How far did the search for a strategy come, and when?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import Study
from testbed.analysis.report.question import Panel, Question

DEFINED = (
    "A step of the search gives an operator other hosts and predicts an iteration. The line is the best so far: with "
    "topoopt, of the strategies for which a network was found, each on its own network. The first step is the better "
    "of the two strategies that the search begins with. The run kept this when it began."
)


def convergence(study: Study) -> Question | None:
    """The best predicted iteration after each step, of each arm whose strategy was searched for."""
    run = study.run
    found: Mapping[str, Any] = run.resolved.get("found") or {}
    searched = {
        run.labels[int(arm)]: one["search"]
        for arm, one in found.items()
        if arm.isdecimal() and int(arm) < len(run.labels) and one.get("search", {}).get("costs_s")
    }
    if run.parts or not searched:
        return None
    frame, spans = plot.stacked([_table(label, course) for label, course in searched.items()])
    traces = [
        plot.curve(
            *(run, label, rows, "step", "iteration_s", "hv"),
            mode="lines+markers",
            marker={"size": 5, "color": plot.colour(run, label)},
            customdata={"columns": ["arm"]},
            hovertemplate="%{customdata[0]}, step %{x}<br>%{y:.4g} s<extra></extra>",
        )
        for label, rows in zip(searched, spans, strict=True)
    ]
    figure = plot.lines_figure(traces, "step of the search", "best predicted iteration (s)", x_from_0=True)
    figure = plot.timed(figure, "y", float(frame["iteration_s"].max()))
    return Question(
        "search",
        "How did the search for a strategy go?",
        frame,
        (Panel("search", "Best predicted iteration after each step", figure),),
        (),
        DEFINED,
        tuple(key for key in plot.dashes(run) if key.label in searched),
        told=tuple(_row(label, course) for label, course in searched.items()),
    )


def _table(label: str, course: Mapping[str, Any]) -> pd.DataFrame:
    """Each improvement, and the best at the last step."""
    steps, costs_s = zip(*course["costs_s"], strict=True)
    last = max(course.get("steps") or 0, steps[-1])
    return pd.DataFrame({"arm": label, "step": [*steps, last], "iteration_s": [*costs_s, costs_s[-1]]})


def _row(label: str, course: Mapping[str, Any]) -> dict[str, str]:
    costs = course["costs_s"]
    (_, first_s), (step, best_s) = costs[0], costs[-1]
    return {
        "Arm": label,
        "Steps": f"{course.get('steps') or step:,}",
        "First": words.seconds(first_s),
        "Best": words.seconds(best_s),
        "First / best": words.ratio(first_s / best_s) if best_s else words.UNKNOWN,
        "Found at step": f"{step:,}",
    }
