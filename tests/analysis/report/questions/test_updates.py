"""What became of updates, and from links of which rate they came."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from testbed.analysis import metrics, report
from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report import page, tables
from testbed.analysis.report.cells import study
from testbed.analysis.report.points import apart
from testbed.analysis.report.question import Question
from testbed.analysis.report.questions import answered, transfers, updates

from ..helpers import answer, asked

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
SLOW = {"kind": "rate", "what": "h1 at 20 Mbit/s", "begun_s": 3.0, "done_s": 3.0}
OUT_OF_H1 = "2"


def by_fate(run: Run) -> Question:
    question = updates.fates(study(run))
    assert question is not None
    return question


def by_rate(run: Run) -> Question:
    question = updates.by_rate(study(run))
    assert question is not None
    return question


def has_rates(run: Run) -> bool:
    return updates.by_rate(study(run)) is not None


def slowed(scheduled: Path, edit: Edit, *events: dict[str, Any]) -> Run:
    """The run with events in one of the trials."""
    edit(scheduled / "trials" / "ring-b16.json", lambda record: record.update(events=list(events)))
    return load(scheduled)


def test_runs_in_which_all_updates_are_applied_alike_are_not_asked(run: Run) -> None:
    assert updates.fates(study(run)) is updates.by_rate(study(run)) is transfers.as_planned(study(run)) is None


def test_each_fate_has_its_share_of_an_arms_updates(scheduled: Path) -> None:
    question = by_fate(load(scheduled))
    assert question.frame["arm"].tolist() == ["Ring on fat-tree", "BML on BCube"]
    row = question.frame.iloc[0]
    counts = {name: row[f"{name}_updates"] for name in ("direct", "aggregated", "dropped", "late")}
    assert counts == {"direct": 126, "aggregated": 36, "dropped": 18, "late": 0}
    assert row["direct_share"] == pytest.approx(126 / 180)
    assert question.told[0] == {
        "Arm": "Ring on fat-tree at batch 16",
        "Updates": "180",
        "Direct": "126 (70.0%)",
        "Aggregated": "36 (20.0%)",
        "Dropped": "18 (10.0%)",
        "Late": "none",
        "Lost": "none",
    }
    assert "A dropped update was not sent" in question.defined
    (panel,) = question.panels
    assert len(panel.figure["data"]) == 2 * 5
    assert [key.label for key in question.legend] == ["direct", "aggregated", "dropped", "late", "lost"]


def test_only_so_many_settings_are_drawn(scheduled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, end in (("trials", "json"), ("samples", "parquet")):
        stored = (scheduled / folder / f"ring-b16.{end}").read_bytes()
        told = stored.replace(b'"batch": 16', b'"batch": 64').replace(b'"ring-b16"', b'"ring-b64"')
        (scheduled / folder / f"ring-b64.{end}").write_bytes(told)
    assert len(by_fate(load(scheduled)).panels) == 2
    monkeypatch.setattr(updates, "MOST_PANELS", 1)
    question = by_fate(load(scheduled))
    assert (len(question.panels), len(question.frame)) == (1, 3)  # the CSV has all
    assert "Drawn are the first 1 of 2 settings." in question.defined


def test_links_of_one_rate_are_no_question(scheduled: Path, edit: Edit) -> None:
    assert not has_rates(load(scheduled))
    failed = SLOW | {"links": {"rate_bps": {OUT_OF_H1: 2e7}}, "error": "refused"}
    other_way = SLOW | {"links": {"rate_bps": {"3": 2e7}}}
    assert not has_rates(slowed(scheduled, edit, failed, other_way))


def test_an_update_counts_at_the_rate_that_its_link_had_when_it_was_ready(scheduled: Path, edit: Edit) -> None:
    slow = SLOW | {"links": {"rate_bps": {OUT_OF_H1: 2e7}}}
    fast = SLOW | {"done_s": 5.0, "links": {"rate_bps": {OUT_OF_H1: 2e8}, "blocked": {}}}
    question = by_rate(slowed(scheduled, edit, slow, fast))
    ready_s = pd.read_parquet(scheduled / "samples" / "ring-b16.parquet").query("rank == 1")["ready_s"]
    between = int(ready_s.between(3.0, 5.0).sum())
    counts = question.frame.groupby("rate", sort=False)["updates"].sum()
    assert between > 2
    assert counts.to_dict() == {"20 Mbit/s": between, "200 Mbit/s": 180 - between}
    assert question.seen[0].startswith(f"Ring on fat-tree at batch 16: {between} of 180 updates came from the slowest")
    assert set(question.frame["arm"]) == {"Ring on fat-tree"}, "links of the other arm had one rate"


def test_a_link_that_is_blocked_has_rate_0_until_it_is_opened(scheduled: Path, edit: Edit) -> None:
    down = SLOW | {"kind": "down", "links": {"blocked": {OUT_OF_H1: True}}}
    up = SLOW | {"kind": "down", "done_s": 4.0, "links": {"blocked": {OUT_OF_H1: False}}}
    rates = by_rate(slowed(scheduled, edit, down, up)).frame["rate"]
    assert list(dict.fromkeys(rates)) == ["0 bit/s", "200 Mbit/s"]


def test_many_rates_share_bars(scheduled: Path, edit: Edit) -> None:
    changes = [SLOW | {"done_s": 0.5 * i, "links": {"rate_bps": {OUT_OF_H1: 1e6 * (10 * i + 3)}}} for i in range(1, 19)]
    question = by_rate(slowed(scheduled, edit, *changes))
    rates = list(dict.fromkeys(question.frame["rate"]))
    assert rates[0] == "to 25 Mbit/s"
    assert rates[-1] == "to 200 Mbit/s"
    assert 2 < len(rates) <= updates.MOST_RATES
    assert question.frame["updates"].sum() == 180


def test_workers_with_several_links_and_networks_of_ones_own_are_left_out(scheduled: Path, edit: Edit) -> None:
    event = SLOW | {"links": {"rate_bps": {str(link): 2e7 for link in range(18)}}}
    edit(scheduled / "trials" / "bml-b16.json", lambda record: record.update(events=[event]))
    assert not has_rates(load(scheduled)), "BCube's hosts have two"
    own = slowed(scheduled, edit, event)
    assert has_rates(own)
    edit(scheduled / "trials" / "ring-b16.json", lambda record: record.update(topology="net.py:net()"))
    assert not has_rates(load(scheduled))


def test_samples_whose_nodes_are_no_numbers_are_left_out(scheduled: Path, edit: Edit) -> None:
    path = scheduled / "samples" / "ring-b16.parquet"
    pd.read_parquet(path).assign(node=0.5).to_parquet(path)
    assert not has_rates(slowed(scheduled, edit, SLOW | {"links": {"rate_bps": {OUT_OF_H1: 2e7}}}))


def test_markdown_has_the_counts_and_how_plans_were_kept(scheduled: Path) -> None:
    told = report.text([scheduled], "md")
    assert "| Ring on fat-tree at batch 16 | 180 | 126 (70.0%) |" in told
    assert "| Ring on fat-tree at batch 16 | 180 | +0.0% | +50.0% | 80% |" in told


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
