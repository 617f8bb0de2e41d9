"""What did each job get of the NICs of the service that it shared with others?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from testbed.analysis import metrics
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.report import plot, words
from testbed.analysis.report.cells import Study
from testbed.analysis.report.question import Key, Panel, Question, column
from testbed.analysis.report.questions.jobs import MOST_JOBS, MOST_PANELS, Jobs, slot_of, typical

WINDOWS = 200
"""Windows of time of a chart."""
DEFINED = (
    "A job's share is the bytes that its workers push in a window of time, over what the service's NICs carry towards "
    "it in that window. Packet headers count on the NICs alone, so all jobs together reach less than 100 %. The bytes "
    "of an iteration count as pushed evenly from the moment the last worker has its gradient to the moment the last "
    "worker has the sum. Of the repeats of an arm, the one in the middle by the end of its last job is shown, in "
    f"{WINDOWS} windows."
)


def over_time(study: Study) -> Question | None:
    """A chart for each trial whose jobs share a service, with the jobs' shares on top of each other."""
    served = [tuple(filter(_is_served, jobs))[:MOST_JOBS] for jobs in typical(study.run)]
    trials = [jobs for jobs in served if jobs][:MOST_PANELS]
    if not trials:
        return None
    frame, spans = plot.stacked([_table(jobs) for jobs in trials])
    starts = [start for start, _ in spans]
    panels = [
        Panel(f"served-{i}", words.name(study.run.whole(jobs[0])), _figure(study.run, jobs, start))
        for i, (jobs, start) in enumerate(zip(trials, starts, strict=True))
    ]
    drawn = [job for jobs in trials for job in jobs]
    return Question(
        "served",
        "What did each job get of the service's NICs over time?",
        frame,
        tuple(panels),
        (),
        DEFINED,
        tuple(Key(label, plot.colour(study.run, label)) for label in dict.fromkeys(job.label for job in drawn)),
        tuple(_row(job) for job in drawn[:MOST_JOBS]),
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


def _table(jobs: Jobs) -> pd.DataFrame:
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


def _figure(run: Run, jobs: Jobs, start: int) -> plot.Figure:
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


def _row(job: Trial) -> dict[str, str]:
    syncs = _syncs(job)
    took_s, pushed = float((syncs["end_s"] - syncs["begin_s"]).median()), _bytes_pushed(job, syncs)
    return {
        "Job": words.name(job),
        "Pushed in an iteration": words.amount(pushed),
        "GST": words.seconds(took_s),
        "Share of the NICs while it synchronises": f"{8 * pushed / took_s / _rate_bps(job):.1%}",
    }
