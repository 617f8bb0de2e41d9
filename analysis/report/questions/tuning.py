"""Question about tuned trials: when did plans change, and which hosts were masters then?"""

from __future__ import annotations

import pandas as pd

from testbed.analysis import metrics
from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import Study
from testbed.analysis.report.question import Panel, Question, column, rounded

MOST_DRAWN = 3
DEFINED = (
    "Throughput is the samples of an iteration over its time. Dashed lines are moments after which Autotune told "
    "workers a new plan; all of them switch to it some iterations later. Squares are the classes of the gradient of "
    "which a host is global master after a step, by the number of iterations that were done before the step."
)


def masters(study: Study) -> Question | None:
    """Draw throughput over iterations with the plans that were told, and masters by host after each step."""
    every = [trial for cell in study.cells if (trial := cell.typical) and trial.tuning and trial.samples is not None]
    if not every:
        return None
    tables, panels, first = [], [], 0
    for number, trial in enumerate(every[:MOST_DRAWN]):
        course, steps = _course(trial), _steps(trial)
        middle, end = first + len(course), first + len(course) + len(steps)
        tables.append(pd.concat([course, steps], ignore_index=True).assign(arm=trial.label, batch=trial.batch))
        shade = plot.colour(study.run, trial.label)
        title = words.title(trial, JCT)
        panels.append(Panel(f"tuning-{number}-speed", title, _speed(trial, course, [first, middle], shade)))
        said = f"{title}: global masters by host"
        panels.append(Panel(f"tuning-{number}-masters", said, _masters(trial, [middle, end])))
        first = end
    more = f" Drawn are {len(panels) // 2} of {len(every)} trials." if len(every) > MOST_DRAWN else ""
    asked = "When did plans change, and which hosts were masters then?"
    told = tuple(_row(trial) for trial in every)
    return Question("tuning", asked, pd.concat(tables, ignore_index=True), tuple(panels), (), DEFINED + more, told=told)


def _course(trial: Trial) -> pd.DataFrame:
    """Return a row for each iteration, with its throughput."""
    assert trial.samples is not None  # callers left the others out
    took_s = metrics.iterations_s(trial.samples)
    return pd.DataFrame({"throughput_sps": trial.batch * trial.world / took_s}).reset_index().assign(host="")


def _steps(trial: Trial) -> pd.DataFrame:
    """Return a row for each host after each step."""
    rows = [(step.after, host, count) for step in trial.tuning for host, count in step.global_masters.items()]
    return pd.DataFrame(rows, columns=["iteration", "host", "global_masters"])


def _speed(trial: Trial, course: pd.DataFrame, rows: list[int], shade: str) -> plot.Figure:
    line = {
        **{"type": "scatter", "mode": "lines", "rows": rows, "line": {"color": shade, "width": 2}},
        **{"x": column("iteration"), "y": column("throughput_sps")},
        "hovertemplate": "iteration %{x}: %{y:.4g} samples/s<extra></extra>",
    }
    top = rounded(1.05 * float(course["throughput_sps"].max())) or 0.0
    marks = [plot.upright(step.after, 0.0, top, width=1.5) for step in trial.tuning if step.plan is not None]
    return plot.lines_figure([line], "iteration", "samples/s", x_from_0=True, shapes=marks)


def _masters(trial: Trial, rows: list[int]) -> plot.Figure:
    hover = "%{y} after iteration %{x}: %{z} classes<extra></extra>"
    heat = plot.heat(rows, "iteration", "host", "global_masters", "classes", zmin=0, hovertemplate=hover)
    hosts = [plot.text(host) for host in trial.tuning[0].global_masters]
    layout = {
        "xaxis": {"title": {"text": "iterations done before the step"}, "type": "category", "showgrid": False},
        "yaxis": {"type": "category", "categoryarray": hosts, "autorange": "reversed", "showgrid": False},
    }
    return plot.finished([heat], layout, 110 + 18 * max(8, len(hosts)))


def _row(trial: Trial) -> dict[str, str]:
    told = [step for step in trial.tuning if step.plan is not None]
    return {
        "Trial": words.name(trial),
        "Steps": f"{len(trial.tuning)}",
        "Plans told": f"{len(told)}",
        "First plan after iteration": f"{told[0].after}" if told else words.UNKNOWN,
    }
