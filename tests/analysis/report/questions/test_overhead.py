"""What synchronisation adds to an iteration."""

from __future__ import annotations

import pytest

from testbed.analysis.recorded import Run

from ..helpers import LATE, answer, in_trial, only, with_metrics


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


def test_an_iteration_that_is_not_valid_is_neither_counted_nor_drawn_as_if_it_were(run: Run) -> None:
    """GST may be VALID where workers computed for too long; the share is then of a wrong time."""
    both = only(run, "ps-b16", "ring-b16")
    for trial in both.trials:
        both = with_metrics(both, trial.id, iteration_median_s=1.0, gst_median_s=0.6, gst_ratio=1.5)
        both = in_trial(both, trial.id, **(LATE if trial.id == "ring-b16" else {}))
    question = answer(both, "overhead")
    told, left_out = question.seen
    assert told.endswith(": 20.0% for PS on fat-tree.")
    assert left_out == "Not counted here, because not VALID in iteration times: Ring on fat-tree at batch 16."
    assert question.frame["verdict"].tolist() == ["VALID", "INVALID"]
    (panel,) = question.panels
    assert ["INVALID" in label for label in panel.figure["layout"]["yaxis"]["ticktext"]] == [False, True]
