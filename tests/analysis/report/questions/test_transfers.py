"""Transfers as planned and as they went."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from testbed.analysis.html import packed
from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report.beside import beside
from testbed.analysis.report.cells import study
from testbed.analysis.report.question import Question
from testbed.analysis.report.questions import transfers


def ask(run: Run) -> Question:
    question = transfers.as_planned(study(run))
    assert question is not None
    return question


def table(run_dir: Path) -> Path:
    return run_dir / "transfers" / "ring-b16.parquet"


def test_a_chart_has_plan_and_reality_of_the_first_transfers_after_the_warm_up(scheduled: Path) -> None:
    question = ask(load(scheduled))
    panel = question.panels[0]
    assert panel.caption == f"Ring on fat-tree at batch 16: {transfers.MOST_BARS} of 180 transfers"
    rows = question.frame[question.frame["arm"] == "Ring on fat-tree"]
    samples = pd.read_parquet(scheduled / "samples" / "ring-b16.parquet")
    warm_s = samples[samples["iteration"] == 0]["end_s"].max()
    known = pd.read_parquet(table(scheduled))
    first = known[known["start_s"] >= warm_s].sort_values("start_s")["start_s"].iloc[: transfers.MOST_BARS]
    assert rows.sort_values("row")["start_s"].tolist() == first.tolist()
    assert rows["row"].sort_values().tolist() == list(range(transfers.MOST_BARS))
    assert set(rows["to"]) == {"h8"}
    plan, *went = panel.figure["data"]
    assert plan["x"] == {"column": "end_s", "minus": "start_s"}
    assert [trace["name"] for trace in went] == sorted(set(rows["what"])) == ["a sum of updates", "an update"]
    assert [plan["rows"][0], *(trace["rows"][1] for trace in went)][::2] == plan["rows"]
    for trace in went:
        assert set(question.frame.iloc[slice(*trace["rows"])]["what"]) == {trace["name"]}


def test_if_few_come_after_the_warm_up_the_last_ones_are_drawn(scheduled: Path) -> None:
    known = pd.read_parquet(table(scheduled)).sort_values("start_s").head(40)
    known.assign(start_s=0.01, end_s=0.1).to_parquet(table(scheduled), index=False)
    assert len(ask(load(scheduled)).frame.query("arm == 'Ring on fat-tree'")) == transfers.MOST_BARS
    known.head(3).to_parquet(table(scheduled), index=False)
    assert len(ask(load(scheduled)).frame.query("arm == 'Ring on fat-tree'")) == 3


def test_how_well_plans_were_kept_is_told_of_the_whole_trial(scheduled: Path) -> None:
    path = scheduled / "trials" / "ring-b16.json"
    record = json.loads(path.read_text())
    record["metrics"] |= {"scheduler_median_s": 0.0005, "scheduler_p99_s": 0.004, "jct_s": 8, "jct_predicted_s": 7.5}
    path.write_text(json.dumps(record))
    ring, bml = ask(load(scheduled)).told
    assert ring["Transfers"] == "180"
    assert (ring["Later than planned, median"], ring["95th percentile"], ring["Within 5%"]) == (
        "+0.0%",
        "+50.0%",
        "80%",
    )
    assert int(ring["Overtaking"]) > 0
    assert ring["To plan a batch, median / p99"] == "0.500\u00a0ms / 4.00\u00a0ms"
    assert ring["JCT / predicted"] == "8.00\u00a0s / 7.50\u00a0s"
    assert ring["GST / predicted"].endswith(" / –")
    assert bml["To plan a batch, median / p99"] == "– / –"


def test_transfers_of_which_nobody_told_when_they_were_there_have_a_plan(scheduled: Path) -> None:
    known = pd.read_parquet(table(scheduled))
    known.assign(arrived_s=float("nan")).to_parquet(table(scheduled), index=False)
    question = ask(load(scheduled))
    assert question.told[0]["Within 5%"] == "–"
    assert question.told[0]["Overtaking"] == "0"
    assert "NaN" not in question.json()


def test_nodes_whose_names_nobody_knows_have_numbers(scheduled: Path) -> None:
    pd.read_parquet(table(scheduled)).assign(to=99).to_parquet(table(scheduled), index=False)
    assert set(ask(load(scheduled)).frame.query("arm == 'Ring on fat-tree'")["to"]) == {"node 99"}


def test_a_run_without_tables_is_not_asked(scheduled: Path) -> None:
    for path in (scheduled / "transfers").iterdir():
        path.unlink()
    assert transfers.as_planned(study(load(scheduled))) is None


def test_charts_are_few_and_numbers_of_more_trials_are_told(scheduled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "MOST_PANELS", 1)
    question = ask(load(scheduled))
    assert (len(question.panels), len(question.told)) == (1, 2)
    run = load(scheduled)
    assert len(ask(beside([run, run])).told) == 4


def test_it_takes_little_of_a_page(scheduled: Path) -> None:
    assert len(packed(ask(load(scheduled)).json())) < 6_000
