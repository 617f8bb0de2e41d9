"""What checkpoints cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report.cells import study
from testbed.analysis.report.questions import checkpoints
from testbed.base.errors import OutputError

from ..helpers import answer

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
TRIAL = "ring-b16.json"
WROTE = {"processes": 9, "count": 4, "bytes": 36 * 10**6, "longest_s": 2.0}


def writing(run_dir: Path, edit: Edit, wrote: dict[str, Any]) -> Run:
    """The run, one trial of which wrote checkpoints; it took 8 s."""

    def change(record: dict[str, Any]) -> None:
        record["checkpoints"] = wrote
        record["metrics"]["jct_s"] = 8.0

    edit(run_dir / "trials" / TRIAL, change)
    return load(run_dir)


def test_runs_without_checkpoints_are_not_asked(run: Run) -> None:
    assert checkpoints.cost(study(run)) is None


def test_only_arms_that_write_have_a_bar(run_dir: Path, edit: Edit) -> None:
    question = answer(writing(run_dir, edit, WROTE), "checkpoints")
    (row,) = question.frame.to_dict("records")
    assert row["share_of_jct"] == 0.25
    assert {name: row[name] for name in WROTE} == WROTE
    assert question.told == (
        {
            "Arm": "Ring on fat-tree at batch 16",
            "Processes that wrote": "9",
            "Checkpoints of each": "4",
            "Written in all": "34.3\u00a0MiB",
            "Longest time": "2.00\u00a0s",
            "Share of JCT": "25.0%",
        },
    )
    (panel,) = question.panels
    assert len(panel.figure["data"]) == 1


def test_a_trial_too_short_for_a_checkpoint(run_dir: Path, edit: Edit) -> None:
    question = answer(writing(run_dir, edit, {"processes": 0, "count": 0, "bytes": 0, "longest_s": 0.0}), "checkpoints")
    assert question.told[0]["Share of JCT"] == "0.0%"
    assert question.panels[0].figure["layout"]["xaxis"]["range"] == [0, 1]


@pytest.mark.parametrize("most", [0.9, 0.3, 0.08, 0.05, 0.03, 0.0105, 0.004, 0.0001])
def test_ticks_of_any_axis_differ(most: float) -> None:
    digits = int(checkpoints.tick_format(most)[1:-1])
    for count in range(3, checkpoints.MOST_TICKS + 1):
        texts = [f"{most * at / count:.{digits}%}" for at in range(count + 1)]
        assert len({*texts}) == len(texts)


@pytest.mark.parametrize("most", [0.0, math.nan])
def test_an_axis_without_length_has_whole_percents(most: float) -> None:
    assert checkpoints.tick_format(most) == ".0%"


def test_what_cannot_be_is_refused(run_dir: Path, edit: Edit) -> None:
    with pytest.raises(OutputError, match="longest_s"):
        writing(run_dir, edit, WROTE | {"longest_s": -1})
