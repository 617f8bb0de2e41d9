"""Question about time: what happened when? Iterations and what was done to a trial over its time; each worker's phases
(a Gantt chart)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from testbed.analysis import metrics
from testbed.analysis.numbers.repeats import ITERATIONS as ITERATION_TIMES
from testbed.analysis.numbers.repeats import WAITING
from testbed.analysis.recorded import Trial
from testbed.analysis.report import plot, room, words
from testbed.analysis.report.cells import MeasuredCell, Study, notes
from testbed.analysis.report.question import Key, Panel, Question, column, rounded
from testbed.base.listing import counted

MOST_PANELS = 12
MOST_WORKERS = 32
"""Rows of a chart; of more workers, evenly spaced ones are drawn."""
ITERATIONS = 3
AROUND = 2
"""Iterations before that in which the first event is, and after it."""
MOST_LINES = 40
"""Events that have a line each; more have a mark only."""

PHASES = (
    ("computing", "start_s", "ready_s", plot.COMPUTE),
    ("waiting for others' gradients", "ready_s", "all_ready_s", "#dcc988"),
    ("synchronising", "all_ready_s", "sum_s", ""),
    ("optimiser's step", "sum_s", "end_s", "#5b6673"),
)
"""Phases of a worker, each with the moments at which it begins and ends, and its colour; none for the arm's own."""
EVENT = "#b5179e"
EVENTS_DEFINED = (
    "Each point is an iteration, at the moment its last worker ended it. Its time runs from the end of the iteration "
    "before; its GST is the part of this time that was synchronisation. Perturbations of the spec are marked at the "
    "moment they took effect. Moments at which workers went on without nodes that had died, and at which the network "
    "failed, are marked, too."
)
GANTT_DEFINED = (
    "The chart shows the trial with the median JCT of each arm, of those that are VALID in exposed waiting, if there "
    "are any. A worker waits from the moment it has its own gradient until the last worker has its gradient; with "
    "overlap it may send meanwhile. Then it synchronises until it has the whole sum."
)


def iterations(study: Study) -> Question | None:
    """Iterations over the time of each cell to which something was done."""
    known_of = [(cell, cell.typical) for cell in study.cells if cell.typical and _happened(cell.typical)]
    every = [(cell, trial) for cell, trial in known_of if trial.samples is not None]
    if not every:
        return None
    shown = room.chosen(every, room.of_pair, MOST_PANELS)
    tables, panels, start = [], [], 0
    for i, (cell, trial) in enumerate(shown):
        happened = [{"time_s": time_s, "event": what} for time_s, what in _happened(trial)]
        table, events = _course(trial), pd.DataFrame(happened, columns=list(_COURSE)).astype({"event": object})
        known = plot.identity(cell, None, ITERATION_TIMES, without=("trials", "workers"))
        tables.append(pd.concat([table, events], ignore_index=True).assign(**known))
        figure = _course_figure(table, events, start, plot.colour(study.run, cell.label))
        panels.append(Panel(f"events-{i}", words.title(trial, ITERATION_TIMES), figure))
        start += len(tables[-1])
    frame = pd.concat(tables, ignore_index=True)
    first = [name for name in frame if name not in _COURSE]
    more = f" Drawn are {len(shown)} of {len(every)}." if len(every) > len(shown) else ""
    lines = (Key("iteration, in its arm's colour", "", ""), Key("its GST", "", "4 3"), Key("perturbation", EVENT))
    told = [_effects(cell, trial) for cell, trial in room.chosen(every, room.of_pair)] if len(every) > 1 else []
    return Question(
        "events",
        "What did the perturbations do?",
        frame[[*first, *_COURSE]],
        tuple(panels),
        room.rest(every, room.of_pair, where="the trials' JSON") if told else (_effect(*shown[0]),),
        EVENTS_DEFINED + notes([cell for cell, _ in every], "timeline") + more,
        (*plot.legend(study.run, None), *lines),
        tuple(told),
    )


_COURSE = ("iteration", "time_s", "iteration_s", "gst_s", "event")


def _happened(trial: Trial) -> list[tuple[float, str]]:
    """List when (s from its start) and what happened in a trial: events that came about, rounds after deaths, and
    losses."""
    events = [(event.moment_s, f"{event.kind}: {event.what}") for event in trial.events if event.moment_s is not None]
    rounds = [
        (
            abs(recovery.called_s),
            f"{recovery.world} workers go on from iteration {recovery.first}, without {', '.join(recovery.without)}",
        )
        for recovery in trial.recoveries
        if recovery.without
    ]
    lost = [(loss.noticed_s, f"lost: {loss.node}") for loss in trial.losses if loss.noticed_s is not None]
    return sorted(events + rounds + lost)


def _course(trial: Trial) -> pd.DataFrame:
    """A row for each iteration: when the last worker ended it, how long it took, and its GST."""
    assert trial.samples is not None  # callers left the others out
    samples = metrics.rounds(trial.samples)
    ends = samples.groupby("iteration")["end_s"].max()
    gst_s = metrics.gst_s(samples).groupby(level=0).median()
    origin = float(trial.samples["start_s"].min())
    took = ends.diff().fillna(ends - origin)
    table = pd.DataFrame({"time_s": ends - origin, "iteration_s": took, "gst_s": gst_s})
    return table.reset_index().assign(event="")


def _course_figure(table: pd.DataFrame, events: pd.DataFrame, start: int, shade: str) -> plot.Figure:
    middle, end = start + len(table), start + len(table) + len(events)
    top = 1.1 * float(table["iteration_s"].max())
    dashes: dict[str, dict[str, str]] = {"iteration": {}, "GST": {"dash": "4px,3px"}}
    traces: list[plot.Trace] = [
        {
            "type": "scatter",
            "name": what,
            "mode": "lines+markers",
            "rows": [start, middle],
            "x": column("time_s"),
            "y": column(name),
            "line": {"color": shade, "width": 2, **dashes[what]},
            "marker": {"size": 6},
            "customdata": {"columns": ["iteration"]},
            "hovertemplate": f"iteration %{{customdata[0]}}, ended at %{{x:.2f}} s<br>{what} %{{y:.4g}} s"
            "<extra></extra>",
        }
        for name, what in (("iteration_s", "iteration"), ("gst_s", "GST"))
    ]
    marks = {"rows": [middle, end], "customdata": {"columns": ["event"]}}
    traces.append(_marks(column("time_s"), [top] * len(events), "%{customdata[0]}", **marks))
    lines = [_mark(time_s, 0.0, top) for time_s in events["time_s"]] if len(events) <= MOST_LINES else []
    figure = plot.lines_figure(traces, "time since the trial's start (s)", "time (s)", x_from_0=True, shapes=lines)
    return plot.timed(figure, "y", float(table["iteration_s"].max()))


def _marks(moments_s: Any, heights: Sequence[float], what: str, **more: Any) -> plot.Trace:
    """The marks of what happened; ``what`` it was is in their tooltip."""
    return {
        "type": "scatter",
        "name": "perturbation",
        "mode": "markers",
        "x": moments_s,
        "y": [rounded(height) for height in heights],
        "marker": {"symbol": "triangle-down", "size": 10, "color": EVENT},
        "hovertemplate": f"%{{x:.2f}} s<br>{what}<extra></extra>",
        **more,
    }


def _mark(time_s: float, low: float, high: float) -> dict[str, Any]:
    shape = plot.upright(time_s, low, high, width=1.5)
    shape["line"]["color"] = EVENT
    return shape


def _effect(cell: MeasuredCell, trial: Trial) -> str:
    """Say how long iterations took before the first event and from then on."""
    table, first = _course(trial), _happened(trial)[0][0]
    before, after = (table.loc[chosen, "iteration_s"] for chosen in (table["time_s"] < first, table["time_s"] >= first))
    count = len(_happened(trial))
    name = words.row_name(cell, ITERATION_TIMES)
    events = f"{name}: {counted(count, 'event')}, the first at {words.seconds(first)}."
    if before.empty or after.empty:
        return f"{events} The median iteration took {words.seconds(float(table['iteration_s'].median()))}."
    slowest = int(table["iteration"].to_numpy()[table["time_s"] >= first][int(after.to_numpy().argmax())])
    longest = f"the longest, iteration {slowest}, {words.seconds(float(after.max()))}"
    return (
        f"{events} The median iteration took {words.seconds(float(before.median()))} before, and "
        f"{words.seconds(float(after.median()))} from then on; {longest}."
    )


def _effects(cell: MeasuredCell, trial: Trial) -> dict[str, str]:
    """Write what :func:`_effect` says, as a row."""
    table, happened = _course(trial), _happened(trial)
    is_before = table["time_s"] < happened[0][0]
    before, after = table.loc[is_before, "iteration_s"], table.loc[~is_before]
    slowest = {} if after.empty else after.to_dict("records")[int(after["iteration_s"].to_numpy().argmax())]
    longest = f"{words.seconds(slowest['iteration_s'])} (iteration {slowest['iteration']})" if slowest else ""
    return {
        "Trial": words.row_name(cell, ITERATION_TIMES),
        "Events": f"{len(happened)}, the first at {words.seconds(happened[0][0])}",
        "Median iteration before": words.UNKNOWN if before.empty else words.seconds(float(before.median())),
        "Median from then on": words.UNKNOWN if after.empty else words.seconds(float(after["iteration_s"].median())),
        "Longest from then on": longest or words.UNKNOWN,
    }


def gantt(study: Study) -> Question | None:
    """A Gantt chart of a few iterations of each arm, at its first setting."""
    shown = study.typical_of_arms(lambda trial: trial.samples is not None, WAITING)
    if not shown:
        return None
    drawn = [(trial, *_phases(trial)) for _, trial in shown[:MOST_PANELS]]
    frame, spans = plot.stacked([table for _, table, _ in drawn])
    panels = [
        Panel(f"gantt-{i}", f"{words.title(trial, WAITING)}: {said}", _gantt_figure(study, trial, table, rows))
        for i, ((trial, table, said), rows) in enumerate(zip(drawn, spans, strict=True))
    ]
    more = f" Drawn are the first {MOST_PANELS} of {len(shown)} arms." if len(shown) > MOST_PANELS else ""
    here = " Each arm is drawn at the first setting at which it has a trial." if len(study.settings) > 1 else ""
    marks = (Key("perturbation", EVENT),) if any(_happened(trial) for _, trial in shown) else ()
    shares = []
    for cell, trial in shown:
        samples, waited = trial.samples, trial.waits_s
        assert samples is not None
        assert waited is not None
        judged = samples[samples["iteration"] >= trial.warmup]
        shares.append((float(waited.sum().sum() / (judged["end_s"] - judged["start_s"]).sum()), cell))
    is_alike = len({cell.setting for cell, _ in shown}) == 1
    at = f" at {words.setting(shown[0][0])}" if is_alike else " at the first setting of each arm"
    where = at if len(study.settings) > 1 else ""
    told = words.each(shares, "{:.1%}".format, WAITING)
    return Question(
        "gantt",
        "What did each worker do at which time?",
        frame,
        tuple(panels),
        (f"Share of workers' time spent waiting for others' gradients{where}: {told}.",),
        f"{GANTT_DEFINED}{notes([cell for cell, _ in shown], 'workers')}{here}{more}",
        (
            *(Key(name, shade) for name, _, _, shade in PHASES if shade),
            *(Key(f"{trial.label}, synchronising", plot.colour(study.run, trial.label)) for trial, _, _ in drawn),
            *marks,
        ),
    )


def _phases(trial: Trial) -> tuple[pd.DataFrame, str]:
    """Moments (s from its start) of some workers in some iterations, and which those are."""
    samples = trial.samples
    assert samples is not None  # callers left the others out
    in_rounds = metrics.rounds(samples)
    first, last = _window(trial, in_rounds)
    ranks = sorted(samples["rank"].unique())
    step = -(-len(ranks) // MOST_WORKERS)
    chosen = samples[in_rounds["iteration"].between(first, last).reindex(samples.index)].copy()
    chosen["all_ready_s"] = trial.kind.own_samples.measures.going_s(chosen)
    chosen["ready_s"] = chosen[["start_s", "ready_s"]].max(axis=1)  # which was before where others still set up
    chosen = chosen[chosen["rank"].isin(ranks[::step])]
    origin = float(samples["start_s"].min())
    moments = ["start_s", "ready_s", "all_ready_s", "sum_s", "end_s"]
    chosen[moments] = chosen[moments] - origin
    names = chosen["name"] if "name" in chosen else chosen["rank"].map("rank {}".format)
    known: dict[str, Any] = {"arm": trial.label, "repeat": trial.repeat + 1}
    table = chosen.assign(worker=names, **known)[[*known, "rank", "worker", "iteration", *moments]]
    of = int(in_rounds["iteration"].max()) + 1
    noun = trial.kind.own_samples.measures.noun
    which = f"{noun} {first}" if first == last else f"{noun}s {first} to {last}"
    all_of = f"all {of} {noun}s" if (first, last) == (0, of - 1) else f"{which} of {of}"
    every = f", one worker in {step}" if step > 1 else ""
    return table.reset_index(drop=True), f"{all_of}{every}"


def _window(trial: Trial, samples: pd.DataFrame) -> tuple[int, int]:
    """First and last iteration to draw: around the first event, or right after the warm-up."""
    last = int(samples["iteration"].max())
    events = _happened(trial)
    if events:
        ends = samples.groupby("iteration")["end_s"].max() - samples["start_s"].min()
        after = ends[ends >= events[0][0]]
        middle = int(after.index[0]) if len(after) else last
        return max(0, middle - AROUND), min(last, middle + AROUND)
    first = min(trial.warmup, max(0, last - ITERATIONS + 1))
    return first, min(last, first + ITERATIONS - 1)


def _gantt_figure(study: Study, trial: Trial, table: pd.DataFrame, rows: tuple[int, int]) -> plot.Figure:
    names = dict(zip(table["rank"].tolist(), table["worker"].tolist(), strict=True))
    ranks = sorted(names)
    step = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    begin, end = float(table["start_s"].min()), float(table["end_s"].max())
    events = [(time_s, what) for time_s, what in _happened(trial) if begin <= time_s <= end]
    traces = [
        plot.spans(
            *(rows, begins, ends, shade or plot.colour(study.run, trial.label)),
            f"%{{customdata[0]}}, iteration %{{customdata[1]}}<br>{name}: ",
            told=["worker", "iteration"],
            name=name,
            y=column("rank"),
            width=0.8 * step,
        )
        for name, begins, ends, shade in PHASES
    ]
    low, high = ranks[0] - 1.2 * step, ranks[-1] + 0.6 * step
    if events:
        heights = [low + 0.3 * step] * len(events)
        texts = [plot.text(what) for _, what in events]
        traces.append(_marks([rounded(time_s) for time_s, _ in events], heights, "%{text}", text=texts))
    layout = {
        "barmode": "overlay",
        "xaxis": {"title": {"text": "time since the trial's start (s)"}, "range": [rounded(begin), rounded(end)]},
        "yaxis": {
            "tickvals": ranks,
            "ticktext": [plot.text(str(names[rank])) for rank in ranks],
            "range": [rounded(high), rounded(low)],
            "showgrid": False,
        },
        "shapes": [_mark(time_s, rounded(low) or 0.0, rounded(high) or 0.0) for time_s, _ in events[:MOST_LINES]],
    }
    return plot.timed(plot.finished(traces, layout, 90 + 18 * len(ranks)), "x", end)
