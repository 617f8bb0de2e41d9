"""Accuracy by mini-batches and by time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report.cells import study
from testbed.analysis.report.questions import learning_curves

from ..helpers import answer, only


def test_each_arm_has_a_line_in_both_panels_with_the_same_points(run: Run) -> None:
    question = answer(only(run, "ps-b16", "bml-b16"), "learning-curves")
    by_batches, by_time = question.panels
    assert [trace["rows"] for trace in by_batches.figure["data"]] == [trace["rows"] for trace in by_time.figure["data"]]
    assert {trace["x"]["column"] for trace in by_batches.figure["data"]} == {"mini_batches"}
    assert {trace["x"]["column"] for trace in by_time.figure["data"]} == {"time_s"}
    assert by_time.figure["layout"]["yaxis"]["tickformat"] == ".0%"
    ps = question.frame[question.frame["arm"] == question.frame["arm"].iloc[0]]
    assert ps["mini_batches"].tolist() == (ps["iteration"] + 1).tolist()
    assert len(question.told) == 2


def test_dropped_updates_are_mini_batches_that_were_computed(scheduled: Path) -> None:
    """Nine of ten updates are applied, so a round of applied ones takes more computing."""
    run = only(load(scheduled), "bml-b16")
    (curve,) = [learning_curves._curve(trial) for trial in run.trials]
    assert curve is not None
    workers = run.trials[0].world
    wanted = (curve["iteration"] + 1) * 10 / 9
    assert curve["mini_batches"].tolist() == pytest.approx(wanted.tolist(), abs=1.01 / workers)
    assert (curve["mini_batches"] > curve["iteration"] + 1).any()


def test_a_likelihood_has_its_own_axis(run: Run) -> None:
    both = only(run, "ps-b16", "bml-b16")
    told = tuple(replace(t, accuracy=replace(t.accuracy, curve_of="log_likelihood")) for t in both.trials)
    question = answer(replace(both, trials=told), "learning-curves")
    assert question.asked == "How did the likelihood rise?"
    titles = {panel.figure["layout"]["yaxis"]["title"]["text"] for panel in question.panels}
    assert titles == {"log-likelihood of a token (nats)"}


def test_weights_of_another_process_have_no_curve(run: Run) -> None:
    none = tuple(replace(t, accuracy=replace(t.accuracy, curve=None)) for t in run.trials)
    assert learning_curves.by_iteration_and_time(study(replace(run, trials=none))) is None


def test_settings_beyond_the_most_are_told_of(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning_curves, "MOST_SETTINGS", 1)
    question = answer(run, "learning-curves")
    assert len(question.panels) == 2
    assert "Drawn are the first 1 of 2 settings." in question.defined
