"""What synchronisation adds to an iteration."""

from __future__ import annotations

import pytest

from testbed.analysis.recorded import Run

from ..helpers import answer, only, with_metrics


def test_parts_of_an_iteration_add_up(run: Run) -> None:
    changed = with_metrics(only(run, "ps-b16"), "ps-b16", iteration_median_s=1.0, gst_median_s=0.6, gst_ratio=1.5)
    question = answer(changed, "overhead")
    (row,) = question.frame.to_dict("records")
    parts = [row[name] for name in ("compute_s", "least_s", "more_s")]
    assert parts == pytest.approx([0.4, 0.4, 0.2])
    assert sum(parts) == pytest.approx(row["iteration_s"])
    (panel,) = question.panels
    assert [trace["x"] for trace in panel.figure["data"]] == [
        {"column": name} for name in ("compute_s", "least_s", "more_s")
    ]
    assert panel.figure["layout"]["barmode"] == "stack"
    assert "20.0%" in question.seen[0]


def test_gst_below_its_bound_adds_nothing_beyond_it(run: Run) -> None:
    changed = with_metrics(only(run, "ps-b16"), "ps-b16", iteration_median_s=1.0, gst_median_s=0.6, gst_ratio=0.9)
    (row,) = answer(changed, "overhead").frame.to_dict("records")
    assert (row["least_s"], row["more_s"]) == (0.6, 0.0)


def test_what_has_no_bound_is_left_out_and_counted(run: Run) -> None:
    timed = with_metrics(only(run, "ps-b16", "ring-b16"), "ring-b16", iteration_median_s=30.0)
    changed = with_metrics(timed, "ps-b16", iteration_median_s=30.0, gst_ratio=None)
    question = answer(changed, "overhead")
    assert question.frame["arm"].tolist() == ["Ring on fat-tree"]
    assert question.seen[0].endswith("; known of 1 of 2.")
