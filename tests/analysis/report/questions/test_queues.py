"""What waited at egresses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from testbed.analysis import report
from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report.beside import beside
from testbed.analysis.report.questions import queues

from ..helpers import answer, asked, judged, sharing

RATE_BPS = 200_000_000


def table(worst: int, jct_s: float = 10.0, windows: int = 100) -> pd.DataFrame:
    """A megabyte waits at one link all the time, and 25 kB at another half of the time."""
    start_s = [jct_s * i / windows for i in range(windows)]
    steady = pd.DataFrame({"link": worst, "start_s": start_s, "most_bytes": 10**6, "full_share": 0.5, "drops": 1})
    brief = pd.DataFrame({"link": 5, "start_s": start_s[::2], "most_bytes": 25_000, "full_share": 0.0, "drops": 0})
    found = pd.concat([steady, brief]).sort_values(["start_s", "link"], ignore_index=True)
    return found.assign(window_s=jct_s / windows, mean_bytes=found["most_bytes"] / 2, marks=0)


@pytest.fixture
def watched(run_dir: Path) -> Path:
    """The made-up run, of which three trials have tables."""
    (run_dir / "queues").mkdir()
    for worst, name in enumerate(("ps-b16", "bml-b16", "ring-b16")):
        table(worst).to_parquet(run_dir / "queues" / f"{name}.parquet", index=False)
    return run_dir


def test_runs_without_tables_are_not_asked(run: Run) -> None:
    assert asked(run, "queues") is None


def test_trials_furthest_from_their_bounds_are_drawn(watched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(watched)
    by_ratio = sorted((t for t in run.trials if t.queues is not None), key=lambda t: -(t.metrics.gst_ratio or 0))
    assert len(answer(run, "queues").panels) == 3
    monkeypatch.setattr(queues, "MOST_PANELS", 1)
    (panel,) = answer(run, "queues").panels
    assert panel.caption == f"{by_ratio[0].label} at batch 16"
    again = [replace(trial, repeat=1, stored=(watched, "ring-b16")) for trial in run.trials if trial.id == "ps-b16"]
    run = replace(run, trials=(*(trial for trial in run.trials if trial.id == "ps-b16"), *again))
    assert answer(run, "queues").seen[-1] == "Not shown: 1 more trial; queues/ has the tables of all."


def test_the_link_is_told_at_which_bytes_waited_longest(watched: Path) -> None:
    (told, *_) = answer(load(watched), "queues").seen
    assert ", bytes waited longest at " in told
    assert ": 488\u00a0KiB on average, and 977\u00a0KiB at most, which take " in told


def test_a_heat_map_has_the_most_of_each_link_in_each_column(watched: Path) -> None:
    question = answer(load(watched), "queues")
    frame = question.frame[question.frame["arm"] == "PS on fat-tree"]
    steady, brief = frame[frame["link"] == "h0 to s0"], frame[frame["link"] == "s0 to h2"]
    assert len(steady) == len(steady["time_s"].unique()) == queues.MOST_COLUMNS
    assert steady["time_s"].diff().dropna().max() == pytest.approx(steady["time_s"].diff().dropna().min())
    seen = steady[steady["time_s"] < 9.9]
    assert set(seen["most_bytes"]) == {10**6}
    assert set(seen["most_ms"]) == {8e3 * 10**6 / RATE_BPS}
    assert set(brief["most_bytes"]) == {25_000}
    (trace,) = next(panel for panel in question.panels if "PS" in panel.caption).figure["data"]
    rows = question.frame.iloc[slice(*trace["rows"])]
    assert set(rows["arm"]) == {"PS on fat-tree"}
    assert trace["zmax"] == 40


def test_a_link_that_was_briefly_full_keeps_its_most_and_columns_without_it_are_blank(watched: Path) -> None:
    brief = pd.DataFrame(
        {"link": [0, 2], "start_s": [0.0, 5.0], "window_s": 0.01, "most_bytes": [10**6, 7], "mean_bytes": [10**6, 7]}
    )
    for path in (watched / "queues").iterdir():
        brief.assign(full_share=0.0, drops=0, marks=0).to_parquet(path, index=False)
    question = answer(load(watched), "queues")
    frame = question.frame[question.frame["arm"] == "PS on fat-tree"]
    assert len(frame[frame["link"] == "h0 to s0"]) == queues.MOST_COLUMNS
    assert frame[frame["most_bytes"] > 0]["most_bytes"].tolist() == [10**6, 7]


def test_the_worst_links_are_told_by_name(watched: Path) -> None:
    question = answer(load(watched), "queues")
    rows = [row for row in question.told if row["Trial"].startswith("PS")]
    assert [row["Link"] for row in rows] == ["h0 to s0", "s0 to h2"]
    assert rows[0]["Most"] == "977\u00a0KiB, 40.0\u00a0ms"
    assert rows[0]["Full for"] == "5.00\u00a0s"
    assert (rows[0]["Drops"], rows[1]["Drops"], rows[1]["Full for"]) == ("100", "0", "never")
    assert "at most, which take" in question.seen[0]
    assert "Marks" not in rows[0]


def test_marks_are_told_if_there_were_any(watched: Path) -> None:
    table(0).assign(marks=2).to_parquet(watched / "queues" / "ps-b16.parquet", index=False)
    rows = answer(load(watched), "queues").told
    assert {row["Trial"].startswith("PS"): row["Marks"] for row in rows} == {True: "100", False: "0"}


def test_ends_of_iterations_are_marked_where_there_are_few(watched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(watched)
    assert {len(panel.figure["layout"]["shapes"]) for panel in answer(run, "queues").panels} == {20}
    monkeypatch.setattr(queues, "MOST_LINES", 19)
    assert {len(panel.figure["layout"]["shapes"]) for panel in answer(run, "queues").panels} == {0}


def test_only_the_worst_of_many_links_are_drawn(watched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "MOST_LINKS", 1)
    question = answer(load(watched), "queues")
    assert question.panels[0].caption.endswith(", 1 of 2 links at which bytes waited")
    assert len(question.frame) == 3 * queues.MOST_COLUMNS


def test_links_that_were_not_recorded_are_left_out(watched: Path) -> None:
    for path in (watched / "queues").iterdir():
        table(10**6).assign(link=10**6).to_parquet(path, index=False)
    assert asked(load(watched), "queues") is None


def test_page_and_markdown_have_the_table(watched: Path) -> None:
    page = report.text([watched], "html")
    assert page == report.text([watched], "html")
    assert page.count("<td>977\u00a0KiB, 40.0\u00a0ms</td>") == 3
    assert "| PS on fat-tree at batch 16 | h0 to s0 | 977 KiB, 40.0 ms |" in report.text([watched], "md")


def test_runs_side_by_side_keep_their_tables(watched: Path) -> None:
    run = load(watched)
    assert len(answer(beside([run, run]), "queues").panels) == queues.MOST_PANELS


def test_jobs_that_shared_a_network_are_one_trial(watched: Path) -> None:
    """Its table is there once; the third job is of another trial."""
    jobs = {"ps-b16": "x: a", "bml-b16": "x: b", "ring-b16": "y: a"}
    run = sharing(load(watched), jobs)
    trials = tuple(replace(trial, stored=(watched, "ps-b16")) if "x" in trial.label else trial for trial in run.trials)
    trials = tuple(replace(trial, stored=(watched, "ring-b16")) if "y" in trial.label else trial for trial in trials)
    question = answer(replace(run, trials=trials), "queues")
    assert sorted(panel.caption for panel in question.panels) == ["x at batch 16", "y at batch 16"]
    assert [row["Trial"] for row in question.told].count("x at batch 16") == 2  # two links
    assert set(question.frame["arm"]) == {"x", "y"}
    assert not any(panel.figure["layout"]["shapes"] for panel in question.panels)  # whose iterations would they be?


def test_a_trial_that_is_not_valid_stands_in_for_no_cell_that_is(watched: Path) -> None:
    """The cell's mark would not be its own: the cell is VALID by its other repeat."""
    valid = [trial for trial in load(watched).trials if trial.id == "ps-b16"]
    faster = replace(valid[0].metrics, jct_s=0.5 * (valid[0].metrics.jct_s or 0))
    spoilt = replace(judged(valid[0], "INVALID"), repeat=1, metrics=faster)
    (panel,) = answer(replace(load(watched), trials=(*valid, spoilt)), "queues").panels
    assert "repeat 2" not in panel.caption
