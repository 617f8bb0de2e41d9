"""When jobs ran that shared a network, and what they waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copy, copytree
from typing import Any

import pandas as pd
import pytest

from testbed.analysis.load import load
from testbed.analysis.record.trial import LinkCount, Slot
from testbed.analysis.recorded import Run, Trial
from testbed.analysis.report import plot
from testbed.analysis.report.beside import beside
from testbed.analysis.report.cells import study
from testbed.analysis.report.question import Question
from testbed.analysis.report.questions import jobs
from testbed.base.errors import OutputError

from ..helpers import answer, judged, only, sharing

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
TRIAL = "ring-b16"
FIRST = {
    "job": "first",
    "hosts": ["h0", "h1"],
    "after": [],
    "planned_s": 0.0,
    "submitted_s": 0.0,
    "started_s": 0.0,
    "queued_s": 0.0,
    "begun_s": 1.0,
    "metrics": {"jct_s": 4.0},
}
SECOND = FIRST | {
    "job": "second",
    "after": ["first"],
    "started_s": 8.25,
    "queued_s": 8.25,
    "dark_s": 3.0,
    "begun_s": 9.5,
    "metrics": {"jct_s": 2.0},
}
FAILED = SECOND | {"status": "failed", "error": "h1 died", "metrics": None, "begun_s": None}


LATE = FIRST | {"job": "late", "started_s": 0.75}
"""Its hosts were free; the processes of another job were started first."""


def shared(run_dir: Path, edit: Edit, *jobs: dict[str, Any]) -> Run:
    """The run, one trial of which is these jobs'."""
    edit(run_dir / "trials" / f"{TRIAL}.json", lambda trial: trial.update(jobs=list(jobs)))
    return load(run_dir, samples=False)


def answered(run: Run) -> Question:
    question = jobs.in_turn(study(run))
    assert question is not None
    return question


def bars(question: Question, job: str) -> list[tuple[str, float, float]]:
    """What a job did, from when until when."""
    rows = question.frame[question.frame["job"] == job].to_dict("records")
    return [(row["what"], row["start_s"], row["end_s"]) for row in rows]


def test_runs_without_jobs_are_not_asked(run: Run) -> None:
    assert all(trial.slot is None for trial in run.trials)
    assert jobs.in_turn(study(run)) is None


def test_a_job_waits_for_hosts_then_for_circuits_and_then_runs(run_dir: Path, edit: Edit) -> None:
    question = answered(shared(run_dir, edit, FIRST, SECOND))
    assert bars(question, "first") == [("processes starting", 0.0, 1.0), ("running", 1.0, 5.0)]
    assert bars(question, "second") == [
        ("waiting for hosts", 0.0, 5.25),
        ("circuits dark", 5.25, 8.25),
        ("processes starting", 8.25, 9.5),
        ("running", 9.5, 11.5),
    ]
    first, second = question.told
    assert list(second.values()) == [
        "Ring on fat-tree: second at batch 16",
        "h0, h1",
        "5.25\u00a0s",
        "3.00\u00a0s",
        "4.50\u00a0s",
        "2.00\u00a0s",
    ]
    assert (first["Waited for hosts"], first["Circuits dark"], first["Gap before it"]) == ("0\u00a0s", "–", "–")


def test_a_job_that_starts_after_others_has_not_waited_for_hosts(run_dir: Path, edit: Edit) -> None:
    question = answered(shared(run_dir, edit, FIRST, LATE))
    assert bars(question, "late") == [("processes starting", 0.0, 1.0), ("running", 1.0, 5.0)]
    assert question.told[1]["Waited for hosts"] == "0\u00a0s"


def test_a_job_is_a_row_and_runs_in_its_own_colour(run_dir: Path, edit: Edit) -> None:
    run = shared(run_dir, edit, FIRST, SECOND)
    (panel,) = answered(run).panels
    (trace,) = panel.figure["data"]
    layout = panel.figure["layout"]
    assert panel.caption == "Ring on fat-tree at batch 16"
    assert trace["rows"] == [0, 6]
    assert (layout["yaxis"]["ticktext"], layout["xaxis"]["range"]) == (["first", "second"], [0, 11.5])
    own = [plot.colour(run, f"Ring on fat-tree: {job}") for job in ("first", "second")]
    assert (trace["marker"]["color"][1], trace["marker"]["color"][5]) == (own[0], own[1])
    assert own[0] != own[1]
    assert trace["marker"]["color"][0] == trace["marker"]["color"][4]


def test_the_page_has_it(run_dir: Path, edit: Edit) -> None:
    for job in ("first", "second"):
        copy(run_dir / "samples" / f"{TRIAL}.parquet", run_dir / "samples" / f"{TRIAL}+{job}.parquet")
    shared(run_dir, edit, FIRST, SECOND)
    assert '"start_s"' in answer(load(run_dir), "jobs").json()


def test_jobs_that_failed_or_never_began(run_dir: Path, edit: Edit) -> None:
    never = {key: FAILED[key] for key in ("hosts", "after", "status", "error", "metrics")} | {"job": "never"}
    third = SECOND | {"job": "third", "after": ["second"]}
    question = answered(shared(run_dir, edit, FIRST, FAILED, third, never))
    assert [what for what, _, _ in bars(question, "second")] == ["waiting for hosts", "circuits dark"]
    assert bars(question, "never") == []
    assert [row["JCT"] for row in question.told] == ["4.00\u00a0s", "failed", "2.00\u00a0s", "failed"]
    assert [row["Gap before it"] for row in question.told] == ["–"] * 4
    ticks = question.panels[0].figure["layout"]["yaxis"]["ticktext"]
    assert ["FAILED" in tick for tick in ticks] == [False, True, False, True]


def test_a_trial_whose_jobs_all_failed_is_left_out(run_dir: Path, edit: Edit) -> None:
    assert jobs.in_turn(study(shared(run_dir, edit, FAILED))) is None


def test_nothing_is_drawn_that_an_older_record_does_not_say(run_dir: Path, edit: Edit) -> None:
    older = [{key: value for key, value in job.items() if key != "begun_s"} for job in (FIRST, SECOND)]
    question = answered(shared(run_dir, edit, *older))
    assert question.frame["what"].tolist() == ["waiting for hosts", "circuits dark"]
    assert question.told[1]["Gap before it"] == "–"


def test_a_record_without_any_bar(run_dir: Path, edit: Edit) -> None:
    question = answered(shared(run_dir, edit, FIRST | {"begun_s": None}))
    assert question.frame.empty
    assert question.panels[0].figure["layout"]["xaxis"]["range"] == [0, 1000]


def test_gaps_are_from_the_last_of_the_jobs_before(run_dir: Path, edit: Edit) -> None:
    beside_it = FIRST | {"job": "beside", "metrics": {"jct_s": 6.5}}
    question = answered(shared(run_dir, edit, FIRST, beside_it, SECOND | {"after": ["first", "beside"]}))
    assert question.told[2]["Gap before it"] == "2.00\u00a0s"


def repeated(run: Run, ends_s: Sequence[float], valid: Sequence[bool]) -> Run:
    """The run with as many repeats of its jobs; the second job of each ends at that moment."""
    trials: list[Trial] = []
    for repeat, (end_s, is_valid) in enumerate(zip(ends_s, valid, strict=True)):
        for trial in run.trials:
            if trial.slot is None:
                continue
            slot = trial.slot if trial.slot.job == "first" else replace(trial.slot, begun_s=end_s - 2.0)
            one = replace(trial, repeat=repeat, stored=(run.path, f"r{repeat}"), slot=slot)
            trials.append(judged(one, "VALID" if is_valid else "INVALID"))
    return replace(run, trials=tuple(trials))


@pytest.mark.parametrize(
    ("valid", "shown"), [((True, True, True), 3), ((True, True, False), 2), ((False, False, False), 3)]
)
def test_the_repeat_in_the_middle_is_shown(run_dir: Path, edit: Edit, valid: tuple[bool, ...], shown: int) -> None:
    run = repeated(shared(run_dir, edit, FIRST, SECOND), (14.0, 11.5, 12.5), valid)
    question = answered(run)
    assert len(question.panels) == 1
    assert set(question.frame["repeat"]) == {shown}


def test_runs_side_by_side_have_a_chart_each(run_dir: Path, edit: Edit, tmp_path: Path) -> None:
    one = shared(run_dir, edit, FIRST, SECOND)
    other = load(copytree(run_dir, tmp_path / "other"), samples=False)
    captions = [panel.caption for panel in answered(beside([one, other])).panels]
    assert captions == ["Ring on fat-tree (quickstart) at batch 16", "Ring on fat-tree (other) at batch 16"]


def test_jobs_are_drawn_as_they_were_submitted(run_dir: Path, edit: Edit) -> None:
    late = FIRST | {"job": "late", "submitted_s": 0.5, "batch": 8}
    question = answered(shared(run_dir, edit, late, SECOND, FIRST))
    (panel,) = question.panels
    assert panel.figure["layout"]["yaxis"]["ticktext"] == ["first", "second", "late"]
    assert panel.caption == "Ring on fat-tree", "the jobs have different batches"


def test_what_there_is_no_room_for_is_told(run_dir: Path, edit: Edit) -> None:
    run = shared(run_dir, edit, *(FIRST | {"job": f"job{i:02d}"} for i in range(jobs.MOST_JOBS + 1)))
    trials = [
        replace(trial, label=f"{i}: {trial.slot.job}", stored=(run.path, str(i)))
        for i in range(jobs.MOST_PANELS + 1)
        for trial in run.trials
        if trial.slot
    ]
    labels = tuple(trial.label for trial in trials)
    question = answered(replace(run, trials=tuple(trials), labels=labels))
    assert len(question.panels) == jobs.MOST_PANELS
    assert len(question.panels[0].figure["layout"]["yaxis"]["ticktext"]) == len(question.told) == jobs.MOST_JOBS
    assert question.defined.endswith(
        "Drawn are the first 6 of 7 trials. Of each trial the first 32 jobs are drawn. "
        "The table has the first 32 of 192 jobs that are drawn."
    )


def test_a_slot_is_as_recorded(run_dir: Path, edit: Edit) -> None:
    slots = [trial.slot for trial in shared(run_dir, edit, FIRST, SECOND).trials if trial.slot]
    assert slots[1] == Slot("second", ("h0", "h1"), ("first",), 0.0, 8.25, 9.5, 8.25, 3.0)


@pytest.mark.parametrize(
    "odd", [{"dark_s": -1.0}, {"begun_s": "soon"}, {"hosts": [None]}, {"after": "first"}, {"queued_s": [1]}], ids=str
)
def test_what_cannot_be_is_refused(run_dir: Path, edit: Edit, odd: dict[str, Any]) -> None:
    with pytest.raises(OutputError, match=next(iter(odd))):
        shared(run_dir, edit, FIRST, SECOND | odd)


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
def served(run: Run) -> Run:
    both = sharing(only(run, *JOBS), JOBS)
    a, b = both.trials
    return replace(
        both, trials=(synchronising(a, 0.0, [(0.0, 4.0), (6.0, 8.0)]), synchronising(b, 2.0, [(0.0, 4.0), (4.0, 8.0)]))
    )


def test_a_job_gets_its_bytes_over_what_the_nics_carry(served: Run) -> None:
    question = jobs.over_time(study(served))
    assert question is not None
    shares = question.frame.pivot_table(index="time_s", columns="job", values="share")

    def at(time_s: float) -> list[float]:
        return shares.iloc[abs(shares.index - time_s).argmin()].tolist()

    assert at(1.0) == pytest.approx([0.5, 0.0]), "2 MB in 4 s over two NICs of 4 Mbit/s"
    assert at(3.0) == pytest.approx([0.5, 0.5])
    assert at(5.0) == pytest.approx([0.0, 0.5])
    assert at(7.0) == pytest.approx([1.0, 0.5])
    assert at(9.0) == pytest.approx([0.0, 0.5])
    window_s = 10.0 / jobs.WINDOWS
    assert (shares.sum() * window_s * 8e6 / 8).tolist() == pytest.approx([4e6, 4e6]), "all bytes are there"
    assert [row["Share of the NICs while it synchronises"] for row in question.told] == ["66.7%", "50.0%"]
    assert question.told[0]["Pushed in an iteration"] == "1.91\u00a0MiB"


def test_jobs_are_on_top_of_each_other(served: Run) -> None:
    question = jobs.over_time(study(served))
    assert question is not None
    (panel,) = question.panels
    assert {trace["stackgroup"] for trace in panel.figure["data"]} == {"jobs"}
    rows = [trace["rows"] for trace in panel.figure["data"]]
    assert rows == [[0, jobs.WINDOWS], [jobs.WINDOWS, 2 * jobs.WINDOWS]]
    assert question.frame["job"].iloc[rows[1][0]] == "b"
    assert panel.figure["layout"]["yaxis"]["tickformat"] == ".0%"


def test_jobs_without_a_service_are_not_asked(run: Run, served: Run) -> None:
    assert jobs.over_time(study(run)) is None
    own = [replace(trial, slot=replace(trial.slot, served_by=())) for trial in served.trials if trial.slot]
    assert jobs.over_time(study(replace(served, trials=tuple(own)))) is None
