"""When did jobs run that share a network, what did they wait for, and what did each get of a shared service?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from testbed.analysis import metrics
from testbed.analysis.numbers.repeats import JCT
from testbed.analysis.record.trial import Slot
from testbed.analysis.recorded import Run, Setting, Trial
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import Study
from testbed.analysis.report.question import Key, Panel, Question, column
from testbed.base.listing import shortened

Jobs: TypeAlias = tuple[Trial, ...]
"""Jobs of one trial, in the order in which they were submitted; never none."""

MOST_PANELS = 6
MOST_JOBS = 32
"""Rows of a chart, and of the table."""
WINDOWS = 200
"""Windows of time of a chart of a service."""
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

SERVED_DEFINED = (
    "A job's share is the bytes that its workers push in a window of time, over what the service's NICs carry towards "
    "it in that window. Packet headers count on the NICs alone, so all jobs together reach less than 100 %. The bytes "
    "of an iteration count as pushed evenly from the moment the last worker has its gradient to the moment the last "
    "worker has the sum. Of the repeats of an arm, the one in the middle by the end of its last job is shown, in "
    f"{WINDOWS} windows."
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
    more = f" Drawn are the first {MOST_PANELS} of {len(trials)} trials." if len(trials) > MOST_PANELS else ""
    if any(len(jobs) > MOST_JOBS for jobs in trials[:MOST_PANELS]):
        more += f" Of each trial the first {MOST_JOBS} jobs are drawn."
    if len(told) > MOST_JOBS:
        more += f" The table has the first {MOST_JOBS} of {len(told)} jobs that are drawn."
    return Question(
        "jobs",
        "When did jobs run, and what did they wait for?",
        frame,
        tuple(panels),
        (),
        DEFINED + more,
        (*(Key(what, shade) for what, shade in SHADES.items()), Key("running, in the job's colour", "", "")),
        tuple(told[:MOST_JOBS]),
    )


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
    moments_s = slot_of(job).submitted_s, slot_of(job).started_s
    submitted_s, started_s = (math.inf if each is None else each for each in moments_s)
    return submitted_s, started_s


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
    shades = [SHADES.get(what, own[row]) for what, row in zip(table["what"], table["row"], strict=True)]
    hover = "%{customdata[0]}, %{customdata[1]}<br>"
    trace = plot.spans(rows, "start_s", "end_s", shades, hover, told=["job", "what"])
    labels = [plot.tick(slot_of(job).job, "" if job.done else "FAILED") for job in jobs]
    end_s = _end_s(jobs)
    span, title, height = (0.0, end_s or 1.0), "time since the trial's beginning (s)", 90 + 36 * len(jobs)
    return plot.timed(plot.spans_figure([trace], labels, title, span, height, barmode="overlay"), "x", end_s)


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


def over_time(study: Study) -> Question | None:
    """A chart for each trial whose jobs share a service, with the jobs' shares on top of each other."""
    served = [tuple(filter(_is_served, jobs))[:MOST_JOBS] for jobs in typical(study.run)]
    trials = [jobs for jobs in served if jobs][:MOST_PANELS]
    if not trials:
        return None
    frame, spans = plot.stacked([_shares(jobs) for jobs in trials])
    panels = [
        Panel(f"served-{i}", words.name(study.run.whole(jobs[0])), _served_figure(study.run, jobs, start))
        for i, (jobs, (start, _)) in enumerate(zip(trials, spans, strict=True))
    ]
    drawn = [job for jobs in trials for job in jobs]
    return Question(
        "served",
        "What did each job get of the service's NICs over time?",
        frame,
        tuple(panels),
        (),
        SERVED_DEFINED,
        tuple(Key(label, plot.colour(study.run, label)) for label in dict.fromkeys(job.label for job in drawn)),
        tuple(_served_row(job) for job in drawn[:MOST_JOBS]),
    )


def _is_served(job: Trial) -> bool:
    slot = slot_of(job)
    has_begun = slot.served_by and slot.begun_s is not None
    return bool(has_begun and job.done and job.samples is not None and job.metrics.wire_bytes and _rate_bps(job))


def _rate_bps(job: Trial) -> float:
    """Rate of all NICs of its service, one way."""
    return sum(link.rate_bps for link in job.links if link.target in slot_of(job).served_by)


def _syncs(job: Trial) -> pd.DataFrame:
    """When each iteration's synchronisation began and ended (s from the trial's beginning)."""
    assert job.samples is not None  # those without were left out
    samples = metrics.rounds(job.samples)
    origin = float(job.samples["start_s"].min()) - (slot_of(job).begun_s or 0.0)
    return samples.groupby("iteration").agg(begin_s=("ready_s", "max"), end_s=("sum_s", "max")) - origin


def _bytes_pushed(job: Trial, syncs: pd.DataFrame) -> float:
    """Bytes that its workers push in an iteration: as many come back."""
    return (job.metrics.wire_bytes or 0.0) / 2 / max(1, len(syncs))


def _shares(jobs: Jobs) -> pd.DataFrame:
    """A row for each window of each job: the share that it got."""
    each = [_syncs(job) for job in jobs]
    edges = np.linspace(0.0, max(float(syncs["end_s"].max()) for syncs in each), WINDOWS + 1)
    tables = []
    for job, syncs in zip(jobs, each, strict=True):
        pushed = np.interp(edges, syncs.to_numpy().ravel(), np.repeat(np.arange(len(syncs) + 1), 2)[1:-1])
        share = 8 * _bytes_pushed(job, syncs) * np.diff(pushed) / (_rate_bps(job) * np.diff(edges))
        known = {"arm": job.label, "repeat": job.repeat + 1, "job": job.job}
        tables.append(pd.DataFrame({**known, "time_s": (edges[1:] + edges[:-1]) / 2, "share": share}))
    return pd.concat(tables, ignore_index=True)


def _served_figure(run: Run, jobs: Jobs, start: int) -> plot.Figure:
    traces: list[plot.Trace] = [
        {
            "type": "scatter",
            "name": plot.text(job.job),
            "mode": "lines",
            "stackgroup": "jobs",
            "rows": [start + number * WINDOWS, start + (number + 1) * WINDOWS],
            "x": column("time_s"),
            "y": column("share"),
            "line": {"color": plot.colour(run, job.label), "width": 1},
            "hovertemplate": f"{plot.text(job.job)}<br>%{{y:.1%}} at %{{x:.4g}} s<extra></extra>",
        }
        for number, job in enumerate(jobs)
    ]
    figure = plot.lines_figure(
        traces, "time since the trial's beginning (s)", "share of the service's NICs", shapes=[plot.level(1.0)]
    )
    figure["layout"]["yaxis"]["tickformat"] = ".0%"
    return figure


def _served_row(job: Trial) -> dict[str, str]:
    syncs = _syncs(job)
    took_s, pushed = float((syncs["end_s"] - syncs["begin_s"]).median()), _bytes_pushed(job, syncs)
    return {
        "Job": words.name(job),
        "Pushed in an iteration": words.amount(pushed),
        "GST": words.seconds(took_s),
        "Share of the NICs while it synchronises": f"{8 * pushed / took_s / _rate_bps(job):.1%}",
    }
