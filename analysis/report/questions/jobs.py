"""When did jobs run that share a network, and what did they wait for?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.record.work import Slot
from testbed.analysis.recorded import Run, Setting, Trial
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import Study
from testbed.analysis.report.question import Key, Panel, Question, column, rounded
from testbed.base.listing import shortened

Jobs: TypeAlias = tuple[Trial, ...]
"""Jobs of one trial, in the order in which they were submitted; never none."""

MOST_PANELS = 6
MOST_JOBS = 32
"""Rows of a chart, and of the table."""
WAITING, DARK, STARTING, RUNNING = "waiting for hosts", "circuits dark", "processes starting", "running"
SHADES = {WAITING: "#dcc988", DARK: "#5b6673", STARTING: plot.COMPUTE}
"""A job that runs has its own colour."""
COLUMNS = ("arm", "repeat", "job", "hosts", "what", "row", "start_s", "end_s")
DEFINED = (
    "A row is a job, from the moment at which it is submitted. It waits for hosts until the jobs that had them before "
    "have ended. If it has circuits of its own, its hosts are then dark until these carry light. Then its processes "
    "start. It runs from the start of its first iteration to the end of its last; that is its JCT. The gap before a "
    "job is from the end of the last iteration on its hosts to the start of its own first. Records of earlier versions "
    "do not say when a first iteration began, so nothing after the waiting is drawn of them. Of the repeats of an arm, "
    "the one in the middle by the end of its last job is shown."
)


def in_turn(study: Study) -> Question | None:
    """A Gantt chart for each trial whose jobs share a network, a row a job."""
    trials = typical(study.run)
    if not trials:
        return None
    drawn = [jobs[:MOST_JOBS] for jobs in trials[:MOST_PANELS]]
    frame, spans = plot.stacked([_table(jobs) for jobs in drawn])
    panels = [
        Panel(f"jobs-{i}", words.name(study.run.whole(jobs[0])), _figure(study.run, jobs, frame, rows))
        for i, (jobs, rows) in enumerate(zip(drawn, spans, strict=True))
    ]
    told = [_row(jobs, job) for jobs in trials[:MOST_PANELS] for job in jobs[:MOST_JOBS]]
    return Question(
        "jobs",
        "When did jobs run, and what did they wait for?",
        frame,
        tuple(panels),
        (),
        DEFINED + _left_out(trials, len(told)),
        (*(Key(what, shade) for what, shade in SHADES.items()), Key("running, in the job's colour", "", "")),
        tuple(told[:MOST_JOBS]),
    )


def _left_out(trials: Sequence[Jobs], rows: int) -> str:
    """Sentences about what there is no room for."""
    found = []
    if len(trials) > MOST_PANELS:
        found.append(f" Drawn are the first {MOST_PANELS} of {len(trials)} trials.")
    if any(len(jobs) > MOST_JOBS for jobs in trials[:MOST_PANELS]):
        found.append(f" Of each trial the first {MOST_JOBS} jobs are drawn.")
    if rows > MOST_JOBS:
        found.append(f" The table has the first {MOST_JOBS} of {rows} jobs that are drawn.")
    return "".join(found)


def typical(run: Run) -> list[Jobs]:
    """Choose the repeat to show of each arm at each setting that has jobs; trials of which no job ended are left
    out."""
    together: dict[tuple[Path, str] | None, list[Trial]] = {}
    for trial in run.trials:
        if trial.slot is not None:
            together.setdefault(trial.stored, []).append(trial)
    repeats: dict[frozenset[tuple[str, Setting]], list[Jobs]] = {}
    for jobs in together.values():
        if any(job.done for job in jobs):
            cell = frozenset((job.label, job.setting) for job in jobs)
            repeats.setdefault(cell, []).append(tuple(sorted(jobs, key=_submitted)))
    return [_middle(each) for each in repeats.values()]


def _submitted(job: Trial) -> tuple[float, float]:
    """Return when a job was submitted and started; last of all, if it never was."""
    slot = slot_of(job)
    return (
        math.inf if slot.submitted_s is None else slot.submitted_s,
        math.inf if slot.started_s is None else slot.started_s,
    )


def _middle(repeats: Sequence[Jobs]) -> Jobs:
    """The repeat in the middle by its end, of those whose jobs are all VALID in JCT, if there are any."""
    valid = [jobs for jobs in repeats if all(job.valid_in(JCT) for job in jobs)]
    ordered = sorted(valid or repeats, key=lambda jobs: (_end_s(jobs), jobs[0].repeat))
    return ordered[(len(ordered) - 1) // 2]


def _end_s(jobs: Jobs) -> float:
    """Return when the last of the jobs had ended (s), as far as that is known."""
    return max((end_s for job in jobs for _, _, end_s in _phases(job)), default=0.0)


def slot_of(job: Trial) -> Slot:
    """Return a job's place beside the others of its trial."""
    assert job.slot is not None  # trials without jobs were left out
    return job.slot


def _ran(job: Trial) -> tuple[float, float] | None:
    """Return when a job's first iteration began and its last ended (s); None where that is not known."""
    begun_s, jct_s = slot_of(job).begun_s, job.metrics.jct_s
    return None if begun_s is None or jct_s is None else (begun_s, begun_s + jct_s)


def _phases(job: Trial) -> Iterator[tuple[str, float, float]]:
    """Yield what a job did, from when until when (s), as far as it took any time; nothing of a job that never began."""
    slot, ran = slot_of(job), _ran(job)
    if slot.submitted_s is None or slot.started_s is None:
        return
    ready_s = slot.started_s if slot.queued_s is None else slot.submitted_s + slot.queued_s
    free_s = max(slot.submitted_s, ready_s - (slot.dark_s or 0.0))
    each = [(WAITING, slot.submitted_s, free_s), (DARK, free_s, ready_s)]
    if ran is not None:
        each += [(STARTING, ready_s, ran[0]), (RUNNING, *ran)]
    yield from ((what, start_s, end_s) for what, start_s, end_s in each if end_s > start_s)


def _table(jobs: Jobs) -> pd.DataFrame:
    """A row for each bar; ``row`` is that of its job in the figure."""
    rows = [
        (job.label, job.repeat + 1, slot_of(job).job, ", ".join(slot_of(job).hosts), what, row, start_s, end_s)
        for row, job in enumerate(jobs)
        for what, start_s, end_s in _phases(job)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _figure(run: Run, jobs: Jobs, frame: pd.DataFrame, rows: tuple[int, int]) -> plot.Figure:
    table, own = frame.iloc[slice(*rows)], [plot.colour(run, job.label) for job in jobs]
    end_s = _end_s(jobs)
    trace: plot.Trace = {
        "type": "bar",
        "orientation": "h",
        "rows": list(rows),
        "base": column("start_s"),
        "x": column("end_s", minus="start_s"),
        "y": column("row"),
        "width": 0.8,
        "marker": {
            "color": [SHADES.get(what, own[row]) for what, row in zip(table["what"], table["row"], strict=True)],
            "line": {"width": 0},
        },
        "customdata": {"columns": ["job", "what"]},
        "hovertemplate": "%{customdata[0]}, %{customdata[1]}<br>%{x:.4g} s from %{base:.4g} s<extra></extra>",
    }
    layout = {
        "barmode": "overlay",
        "xaxis": {"title": {"text": "time since the trial's beginning (s)"}, "range": [0, rounded(end_s or 1.0)]},
        "yaxis": {
            "tickvals": list(range(len(jobs))),
            "ticktext": [plot.tick(slot_of(job).job, "" if job.done else "FAILED") for job in jobs],
            "range": [len(jobs) - 0.4, -0.6],
            "showgrid": False,
        },
        "shapes": [],
    }
    return plot.timed(plot.finished([trace], layout, 90 + 36 * len(jobs)), "x", end_s)


def _row(jobs: Jobs, job: Trial) -> dict[str, str]:
    slot = slot_of(job)
    waited_s = None if slot.queued_s is None else max(0.0, slot.queued_s - (slot.dark_s or 0.0))
    judged = job.numbers.get(JCT)
    doubt = f" ({judged.verdict})" if judged and not job.valid_in(JCT) else ""
    before, ran = [_ran(one) for one in jobs if slot_of(one).job in slot_of(job).after], _ran(job)
    ends_s = [one[1] for one in before if one is not None]
    return {
        "Job": words.name(job),
        "Hosts": shortened(slot.hosts, words.MOST_NAMED),
        "Waited for hosts": words.seconds(waited_s),
        "Circuits dark": words.seconds(slot.dark_s),
        "Gap before it": words.seconds(
            None if ran is None or not before or len(ends_s) < len(before) else ran[0] - max(ends_s)
        ),
        "JCT": f"{words.seconds(job.metrics.jct_s)}{doubt}" if job.done else "failed",
    }
