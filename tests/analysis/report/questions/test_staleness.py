"""How stale updates were: of arms that have any, as curves, or as medians over a sweep's axis."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from testbed.analysis import metrics
from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report import page, tables
from testbed.analysis.report.points import apart
from testbed.analysis.report.questions import answered

from ..helpers import answer, asked

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


def make_asynchronous(run_dir: Path, edit: Edit, scheme: str) -> None:
    """Let the trials of a made-up run's scheme be of updates: in turn, each stale by its rank, the last one held."""
    for path in run_dir.glob(f"samples/{scheme}-*.parquet"):
        samples = pd.read_parquet(path).sort_values(["iteration", "rank"], ignore_index=True)
        at = np.arange(len(samples))
        stale = np.minimum(samples["rank"], at)
        samples = samples.assign(update=at, version=at - stale, staleness=stale)
        samples.assign(held_s=np.where(samples["rank"] == 8, 0.05, 0.0)).to_parquet(path)
        updates = metrics.staleness(samples, 1)
        assert updates is not None
        known = {
            "staleness_median": float(updates.median()),
            "staleness_p95": float(updates.quantile(0.95)),
            "staleness_max": float(updates.max()),
        }
        edit(run_dir / "trials" / f"{path.stem}.json", lambda trial, known=known: trial["metrics"].update(known))  # type: ignore[misc]


@pytest.fixture
def stale(run_dir: Path, edit: Edit) -> Run:
    make_asynchronous(run_dir, edit, "bml")
    return load(run_dir)


def test_no_figure_where_all_arms_are_synchronous(run: Run) -> None:
    assert asked(run, "staleness") is None
    assert "Staleness" not in tables.summary(run).columns


def test_a_curve_of_each_arm_with_updates(stale: Run) -> None:
    question = answer(stale, "staleness")
    frame = question.frame[question.frame["batch"] == 16]
    assert set(question.frame["arm"]) == {"BML on BCube"}
    assert frame["staleness"].tolist() == list(range(9))
    assert frame["updates"].tolist() == [19] * 9  # of 20 iterations each, without the first
    assert frame["share_at_most"].tolist() == pytest.approx([(i + 1) / 9 for i in range(9)])
    assert len(question.panels) == 2  # two batches
    assert [key.label for key in question.legend] == ["BML on BCube"]
    (trace,) = question.panels[1].figure["data"]
    assert trace["rows"] == [9, 18]
    assert question.seen == (
        "Half of the updates missed at most 4 for BML on BCube at batch 16 and 4 for BML on BCube at batch 64.",
        "The most stale update is one of BML on BCube at batch 16. It missed 8 others; 95 % of this arm's updates "
        "missed at most 8.",
    )
    assert question.defined.endswith("Each worker's updates during the warm-up (1) are left out.")


def test_over_an_axis_medians_are_drawn(swept: Path, edit: Edit) -> None:
    make_asynchronous(swept, edit, "bml")
    question = answer(apart(load(swept)), "staleness")
    assert question.frame["staleness"].tolist() == [4.0] * len(question.frame)
    assert question.frame["staleness_max"].tolist() == [8.0] * len(question.frame)
    assert question.panels[0].figure["layout"]["yaxis"]["title"]["text"] == "median staleness (updates missed)"


def test_other_answers_say_what_they_mean_of_updates(stale: Run) -> None:
    found = {question.name: question for question in answered(stale)}
    for name, words in {
        "jct": "averaged over the workers. Compute is the rest",
        "gst": "each update has its own GST",
        "loss": "as many updates, one after the other",
        "waits": "the time for which the server held newer weights back",
        "gantt": "drawn as waiting for as long as the server held",
    }.items():
        assert words in found[name].defined, name
    waits = found["waits"].frame.set_index(["arm", "batch"]).loc[("BML on BCube", 16)]
    assert waits["wait_longest_s"] == pytest.approx(0.05)
    assert waits["waited_longest"] == "rank 8"
    assert pd.isna(waits["slowest_most_often"])
    assert any("rounds 1 to 3 of 20" in panel.caption for panel in found["gantt"].panels)


def test_the_loss_is_told_by_rounds(stale: Run) -> None:
    loss = answer(stale, "loss").frame
    mine = loss[(loss["arm"] == "BML on BCube") & (loss["batch"] == 16)]
    assert mine["iteration"].tolist() == list(range(20))
    assert (mine["time_s"].diff().dropna() >= 0).all()


def test_events_are_drawn_over_rounds(stale: Run) -> None:
    (trial,) = [one for one in stale.trials if one.id == "bml-b16"]
    from testbed.analysis.record.happened import Event

    happened = replace(trial, events=(Event("rate", "h0", 1.0, 1.0, 1.0),))
    run = replace(stale, trials=tuple(happened if one is trial else one for one in stale.trials))
    question = answer(run, "events")
    assert "an iteration is a round" in question.defined
    points = question.frame[question.frame["event"] == ""]
    assert len(points) == 20
    assert (points["iteration_s"] >= 0).all()


def test_the_page_and_the_summary_have_it(stale: Run) -> None:
    text = page.render(apart(stale))
    assert "How stale were updates?" in text
    summary = tables.summary(stale)
    at = summary.columns.index("Staleness") - 1
    assert {row.values[at].text for row in summary.rows if row.label != "BML on BCube"} == {"–"}
    assert {(row.values[at].text, row.values[at].note) for row in summary.rows if row.label == "BML on BCube"} == {
        ("4", "at most 8")
    }


def test_the_table_is_json(stale: Run) -> None:
    assert json.loads(answer(stale, "staleness").json())["columns"]["staleness"][:3] == [0, 1, 2]
