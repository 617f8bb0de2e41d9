"""Trials by setting, and what is drawn along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from testbed.analysis.recorded import Run
from testbed.analysis.report import cells
from testbed.analysis.report.cells import MeasuredCell

from .helpers import judged, only


def at(run: Run, points: Sequence[dict[str, Any]]) -> Run:
    """One trial at each point of a sweep."""
    first = only(run, "bml-b16").trials[0]
    return replace(run, trials=tuple(replace(first, id=str(i), point=point) for i, point in enumerate(points)))


def test_repeats_are_one_cell(sweep: Run) -> None:
    found = cells.cells(sweep)
    assert len(found) == 3 * 2 * 3
    assert {len(cell.trials) for cell in found} == {3}
    assert [cell.label for cell in found[:3]] == list(sweep.labels)
    assert [cell.point["rate"] for cell in found[::3]] == ["50 Mbit/s", "100 Mbit/s", "200 Mbit/s"] * 2


@pytest.mark.parametrize(
    ("points", "title", "numbers"),
    [
        ([{"hosts": 16}, {"hosts": 4}], "hosts", [4, 16]),
        ([{"links.rate": "1 Gbit/s"}, {"links.rate": "50 Mbit/s"}], "links.rate (Mbit/s)", [50, 1000]),
        (
            [{"links.delay": "0 s"}, {"links.delay": "500 us"}, {"links.delay": "2 ms"}],
            "links.delay (us)",
            [0, 500, 2000],
        ),
        ([{"a": 1, "b": 5}, {"a": 2, "b": 5}], "a", [1, 2]),
        ([{"a": n % 2, "b": n} for n in range(4)], "b", [0, 2, 1, 3]),
    ],
)
def test_the_axis_is_the_number_that_is_swept(
    run: Run, points: list[dict[str, Any]], title: str, numbers: list[float]
) -> None:
    swept = at(run, points)
    along = cells.axis(swept)
    assert along is not None
    assert along.title == title
    drawn = [along.at(cell) for group in cells.groups(cells.cells(swept), along) for cell in group.cells]
    assert drawn == pytest.approx(numbers)


@pytest.mark.parametrize(
    "points",
    [
        [{"links.congestion_control": "reno"}, {"links.congestion_control": "cubic"}],
        [{"x": True}, {"x": False}],
        [{"x": 1}, {"x": "many"}],
        [{"x": "1 s"}, {"x": "1 Mbit/s"}],
        [{"hosts": 4}],
        [{}],
    ],
)
def test_what_is_no_number_is_no_axis(run: Run, points: list[dict[str, Any]]) -> None:
    swept = at(run, points)
    assert cells.axis(swept) is None
    assert len(cells.groups(cells.cells(swept), None)) == len(points)


def test_many_batches_are_an_axis(run: Run) -> None:
    first = only(run, "bml-b16").trials[0]
    batches = replace(run, trials=tuple(replace(first, id=str(n), batch=n) for n in (64, 8, 16)))
    along = cells.axis(batches)
    assert along is not None
    (group,) = cells.groups(cells.cells(batches), along)
    assert [along.at(cell) for cell in group.cells] == [8, 16, 64]
    assert group.title == "Every setting"
    assert cells.axis(run) is None


def test_valid_trials_count_where_there_are_any(run: Run) -> None:
    trial = only(run, "bml-b16").trials[0]
    bad = replace(judged(trial, "INVALID"), repeat=1, metrics=replace(trial.metrics, jct_s=1.0))
    lost = replace(trial, done=False, verdict=None, repeat=2, numbers={})
    assert MeasuredCell("x", trial.setting, (trial, bad, lost)).counted("jct") == (trial,)
    assert MeasuredCell("x", trial.setting, (trial, bad, lost)).verdict == "1 of 3 VALID"
    assert MeasuredCell("x", trial.setting, (bad, lost)).counted("jct") == (bad,)
    assert MeasuredCell("x", trial.setting, (bad, lost)).verdict == "INVALID"
    assert MeasuredCell("x", trial.setting, (lost,)).verdict == "FAILED"
    assert MeasuredCell("x", trial.setting, (lost,)).typical is None


def test_the_typical_trial_is_the_one_in_the_middle(run: Run) -> None:
    trial = only(run, "bml-b16").trials[0]
    times = {0: 3.0, 1: 1.0, 2: 2.0, 3: 9.0}
    repeats = tuple(replace(trial, repeat=i, metrics=replace(trial.metrics, jct_s=t)) for i, t in times.items())
    typical = MeasuredCell("x", trial.setting, repeats).typical
    assert typical is not None
    assert typical.repeat == 2
