"""What each job got of the NICs of a service."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from testbed.analysis.record.network import LinkCount
from testbed.analysis.record.work import Slot
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.report.cells import study
from testbed.analysis.report.questions import served

from ..helpers import only, sharing

JOBS = {"ps-b16": "box: a", "ring-b16": "box: b"}
NICS = tuple(
    LinkCount(link, source, target, 4e6, 0, 0, 0)
    for link, (source, target) in enumerate([("s0", "h9"), ("h9", "s0"), ("s0", "h9"), ("h0", "s0")])
)
"""Two of four links lead to the box, h9."""


def synchronising(trial: Trial, begun_s: float, spans: list[tuple[float, float]]) -> Trial:
    """The job with two workers, whose synchronisations take these spans of its own time, each of 2 MB one way."""
    assert trial.slot is not None
    rows = [
        {"rank": rank, "iteration": number, "start_s": 0.0, "ready_s": begin - rank / 8, "sum_s": end - (1 - rank) / 8}
        for number, (begin, end) in enumerate(spans)
        for rank in (0, 1)
    ]
    slot = Slot(trial.slot.job, begun_s=begun_s, submitted_s=0.0, started_s=0.0, served_by=("h9",))
    metrics = replace(trial.metrics, wire_bytes=4e6 * len(spans), jct_s=spans[-1][1])
    return replace(trial, slot=slot, links=NICS, samples=pd.DataFrame(rows).assign(end_s=9.0), metrics=metrics)


@pytest.fixture(scope="module")
def shared(run: Run) -> Run:
    both = sharing(only(run, *JOBS), JOBS)
    a, b = both.trials
    return replace(
        both, trials=(synchronising(a, 0.0, [(0.0, 4.0), (6.0, 8.0)]), synchronising(b, 2.0, [(0.0, 4.0), (4.0, 8.0)]))
    )


def test_a_job_gets_its_bytes_over_what_the_nics_carry(shared: Run) -> None:
    question = served.over_time(study(shared))
    assert question is not None
    shares = question.frame.pivot_table(index="time_s", columns="job", values="share")

    def at(time_s: float) -> list[float]:
        return shares.iloc[abs(shares.index - time_s).argmin()].tolist()

    assert at(1.0) == pytest.approx([0.5, 0.0]), "2 MB in 4 s over two NICs of 4 Mbit/s"
    assert at(3.0) == pytest.approx([0.5, 0.5])
    assert at(5.0) == pytest.approx([0.0, 0.5])
    assert at(7.0) == pytest.approx([1.0, 0.5])
    assert at(9.0) == pytest.approx([0.0, 0.5])
    window_s = 10.0 / served.WINDOWS
    assert (shares.sum() * window_s * 8e6 / 8).tolist() == pytest.approx([4e6, 4e6]), "all bytes are there"
    assert [row["Share of the NICs while it synchronises"] for row in question.told] == ["66.7%", "50.0%"]
    assert question.told[0]["Pushed in an iteration"] == "1.91\u00a0MiB"


def test_jobs_are_on_top_of_each_other(shared: Run) -> None:
    question = served.over_time(study(shared))
    assert question is not None
    (panel,) = question.panels
    assert {trace["stackgroup"] for trace in panel.figure["data"]} == {"jobs"}
    rows = [trace["rows"] for trace in panel.figure["data"]]
    assert rows == [[0, served.WINDOWS], [served.WINDOWS, 2 * served.WINDOWS]]
    assert question.frame["job"].iloc[rows[1][0]] == "b"
    assert panel.figure["layout"]["yaxis"]["tickformat"] == ".0%"


def test_jobs_without_a_service_are_not_asked(run: Run, shared: Run) -> None:
    assert served.over_time(study(run)) is None
    own = [replace(trial, slot=replace(trial.slot, served_by=())) for trial in shared.trials if trial.slot]
    assert served.over_time(study(replace(shared, trials=tuple(own)))) is None
