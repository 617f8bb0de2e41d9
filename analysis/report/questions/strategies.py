"""Questions about hybrid strategies, which say who holds what: what decides an iteration's time, what do servers send
each other, and how did the search for a strategy go?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.record.trial import PairCount
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import MeasuredCell, Study
from testbed.analysis.report.question import Key, Panel, Question, column, rounded

MOST_PANELS = 6
MOST_SERVERS = 64
"""Servers of a heat map at most: a pair takes 40 bytes of the page."""
SORTS = {
    "forward": ("forward pass", plot.COMPUTE),
    "backward": ("backward pass", "#5b6673"),
    "output": ("outputs", "#56b4e9"),
    "gradient": ("gradients of outputs", "#0072b2"),
    "AllReduce": ("AllReduce", "#e69f00"),
}
"""Name and colour of each sort of stage, by the first word of a stage."""
PATH_DEFINED = (
    "The path leads from the start of the predicted iteration to its end. Each stage begins when the one before it "
    "lets it: what it needs is there, or its server or its link is free. What is not on the path can take longer "
    "without a longer iteration. Stages of one sort in one place are drawn together. A link is called by its two "
    "ends, with the panel between them. Of each arm, the trial with the median JCT at its first setting is shown."
)
PAIRS_DEFINED = (
    "Bytes that each server sent each other server in an iteration, without headers, as the sender counted them. "
    "Predicted bytes are those of the strategy: batch x floats of an output x 4 bytes for each edge between operators, "
    "forward and backward, and the gradients that groups of servers sum along their rings. Blank pairs sent nothing. "
    "Drawn is one trial of each arm: the one with the median JCT at its first setting. All have the same scale "
    "of colours. The predicted iteration is played, pass by pass and transfer by transfer, on links that nothing "
    "disturbs. MP wait is the time for which a server had nothing to compute because outputs of operators, or their "
    "gradients, had not come: its mean over servers, the median over iterations."
)
SEARCH_DEFINED = (
    "A step of the search gives an operator other hosts and predicts an iteration. The line is the best so far: with "
    "topoopt, of the strategies for which a network was found, each on its own network. The first step is the better "
    "of the two strategies that the search begins with. The run kept this when it began."
)


def path(study: Study) -> Question | None:
    """Bars along the time of the predicted iteration, a row for each server or link."""
    trials = [trial for _, trial in study.typical_of_arms(lambda trial: trial.critical_path)]
    if not trials:
        return None
    frame, spans = plot.stacked([_stages(trial) for trial in trials[:MOST_PANELS]])
    panels = [
        Panel(f"critical-path-{i}", words.name(trial), _path_figure(frame.iloc[slice(*rows)], rows))
        for i, (trial, rows) in enumerate(zip(trials, spans, strict=False))  # some trials are not drawn
    ]
    more = f" Drawn are {MOST_PANELS} of {len(trials)} arms." if len(trials) > MOST_PANELS else ""
    return Question(
        "critical-path",
        "What decides how long the predicted iteration takes?",
        frame,
        tuple(panels),
        (),
        PATH_DEFINED + more,
        tuple(Key(what, shade) for what, shade in SORTS.values()),
        told=tuple(map(_path_row, trials)),
    )


def _stages(trial: Trial) -> pd.DataFrame:
    """A row for each stage; ``row`` is that of its place in the figure."""
    rows = {where: i for i, where in enumerate(dict.fromkeys(stage.where for stage in trial.critical_path))}
    return pd.DataFrame(
        {
            "arm": trial.label,
            "stage": stage.what,
            "sort": _sort(stage.what),
            "where": stage.where,
            "row": rows[stage.where],
            "start_s": stage.start_s,
            "end_s": stage.end_s,
        }
        for stage in trial.critical_path
    )


def _sort(what: str) -> str:
    first = what.split(" ", 1)[0]
    return SORTS[first][0] if first in SORTS else what


def _path_figure(table: pd.DataFrame, rows: tuple[int, int]) -> plot.Figure:
    shades = [dict(SORTS.values()).get(sort, plot.COMPUTE) for sort in table["sort"]]
    hover = "%{customdata[0]}, %{customdata[1]}<br>"
    trace = plot.spans(rows, "start_s", "end_s", shades, hover, told=["stage", "where"])
    places = [plot.text(where) for where in table.drop_duplicates("row")["where"]]
    end_s = float(table["end_s"].max())
    title, height = "time in the predicted iteration (s)", 90 + 22 * len(places)
    return plot.timed(plot.spans_figure([trace], places, title, (0.0, end_s), height), "x", end_s)


def _path_row(trial: Trial) -> dict[str, str]:
    """Write for how long the path is in each sort of stage; where two overlap, as transfers in a pipeline, in the
    later."""
    stages = trial.critical_path
    ends = [*(stage.start_s for stage in stages[1:]), stages[-1].end_s]
    spent = dict.fromkeys((what for what, _ in SORTS.values()), 0.0)
    for stage, end_s in zip(stages, ends, strict=True):
        sort = _sort(stage.what)
        spent[sort] = spent.get(sort, 0.0) + max(0.0, end_s - stage.start_s)
    whole_s = sum(spent.values())
    shares = {sort: f"{seconds / whole_s:.0%}" if whole_s else words.UNKNOWN for sort, seconds in spent.items()}
    return {"Trial": words.name(trial), "Predicted iteration": words.seconds(stages[-1].end_s), **shares}


def exchanged(study: Study) -> Question | None:
    """Heat maps of servers by servers, measured beside predicted."""
    arms = study.typical_of_arms(lambda trial: trial.pairs)
    if not arms:
        return None
    trials = [trial for _, trial in arms]
    shown = [trial for trial in trials if trial.world <= MOST_SERVERS][:MOST_PANELS]
    frame, spans = plot.stacked([_pairs(trial) for trial in shown or trials])
    highest = float(frame["bytes"].max())
    panels = [
        Panel(f"pairs-{i}", f"{words.title(trial, JCT)}: measured, and predicted", _pairs_figure(trial, rows, highest))
        for i, (trial, rows) in enumerate(zip(shown, spans, strict=False))  # without any, the table has all
    ]
    more = f" Drawn are {len(shown)} of {len(trials)} arms." if len(trials) > len(shown) else ""
    return Question(
        "pairs",
        "What did servers send each other, and was it what the strategy predicts?",
        frame,
        tuple(panels),
        (),
        PAIRS_DEFINED + more,
        told=tuple(_pairs_row(cell, trial) for cell, trial in arms),
    )


def _pairs(trial: Trial) -> pd.DataFrame:
    """A row for each pair; bytes of one iteration."""

    def row(pair: PairCount) -> dict[str, Any]:
        counts = {"bytes": pair.bytes, "predicted_bytes": pair.theory_bytes, "mp_bytes": pair.mp_bytes}
        known = {"arm": trial.label, "batch": trial.batch, "from": pair.source, "to": pair.target}
        return known | {name: count / trial.iterations for name, count in counts.items()}

    return pd.DataFrame(map(row, trial.pairs))


def _pairs_figure(trial: Trial, rows: tuple[int, int], highest: float) -> plot.Figure:
    names = list(dict.fromkeys(pair.source for pair in trial.pairs))
    measured, predicted = (
        plot.heat(
            *(rows, "to", "from", value, "B"),
            text=column("mp_bytes"),
            zmin=0,
            zmax=rounded(highest),
            hoverongaps=False,
            hovertemplate=f"%{{y}} to %{{x}}, {what}: %{{z:,.0f}} B<br>"
            "outputs and their gradients: %{text:,.0f} B<extra></extra>",
        )
        for value, what in (("bytes", "measured"), ("predicted_bytes", "predicted"))
    )
    del measured["colorbar"]
    layout = {
        "xaxis": plot.categories(names, domain=[0, 0.47], title={"text": "to (measured)"}),
        "xaxis2": plot.categories(names, domain=[0.53, 1], title={"text": "to (predicted)", "font": {"size": 12}}),
        "yaxis": plot.categories(names, autorange="reversed", title={"text": "from"}),
    }
    traces = [measured | {"showscale": False}, predicted | {"xaxis": "x2"}]
    return plot.finished(traces, layout, 110 + 18 * max(8, len(names)))


def _pairs_row(cell: MeasuredCell, trial: Trial) -> dict[str, str]:
    known, count = trial.metrics, trial.iterations
    measured, predicted = (sum(getattr(pair, name) for pair in trial.pairs) for name in ("bytes", "theory_bytes"))
    took_s, predicted_s = known.iteration_median_s, known.iteration_predicted_s
    return {
        "Trial": words.marked(words.name(trial), cell, JCT),
        "Sent in an iteration": words.amount(measured / count),
        "Measured / predicted": words.ratio(measured / predicted) if predicted else words.UNKNOWN,
        "Outputs and their gradients": words.amount(sum(pair.mp_bytes for pair in trial.pairs) / count),
        "Iteration": words.seconds(took_s),
        "Predicted": words.seconds(predicted_s),
        "Predicted / measured": words.ratio(predicted_s / took_s) if took_s and predicted_s else words.UNKNOWN,
        "MP wait, forward": words.seconds(known.mp_wait_forward_s),
        "MP wait, backward": words.seconds(known.mp_wait_backward_s),
    }


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
    frame, spans = plot.stacked([_improvements(label, search) for label, search in searched.items()])
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
        SEARCH_DEFINED,
        tuple(key for key in plot.dashes(run) if key.label in searched),
        told=tuple(_search_row(label, search) for label, search in searched.items()),
    )


def _improvements(label: str, search: Mapping[str, Any]) -> pd.DataFrame:
    """Each improvement, and the best at the last step."""
    steps, costs_s = zip(*search["costs_s"], strict=True)
    last = max(search.get("steps") or 0, steps[-1])
    return pd.DataFrame({"arm": label, "step": [*steps, last], "iteration_s": [*costs_s, costs_s[-1]]})


def _search_row(label: str, search: Mapping[str, Any]) -> dict[str, str]:
    (_, first_s), (step, best_s) = search["costs_s"][0], search["costs_s"][-1]
    return {
        "Arm": label,
        "Steps": f"{search.get('steps') or step:,}",
        "First": words.seconds(first_s),
        "Best": words.seconds(best_s),
        "First / best": words.ratio(first_s / best_s) if best_s else words.UNKNOWN,
        "Found at step": f"{step:,}",
    }
