"""What became of updates, and from links of which rate they came."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from testbed.analysis import report
from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report.cells import study
from testbed.analysis.report.question import Question
from testbed.analysis.report.questions import transfers, updates

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
