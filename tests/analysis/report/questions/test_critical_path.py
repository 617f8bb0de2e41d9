"""What decides the predicted iteration: bars, and the share of each sort."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report import words
from testbed.base.errors import OutputError

from ..helpers import answer, asked

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
PATH = [
    {"what": "forward e0", "where": "h0", "start_s": 0.0, "end_s": 0.1},
    {"what": "output of e0 and 2 more", "where": "h0-p1-h3", "start_s": 0.1, "end_s": 0.25},
    {"what": "backward dense", "where": "h3", "start_s": 0.2, "end_s": 0.3},
    {"what": "AllReduce of dense", "where": "h0-p1-h3", "start_s": 0.3, "end_s": 0.5},
]


def with_path(run_dir: Path, edit: Edit, path: list[dict[str, Any]]) -> Path:
    edit(run_dir / "trials" / "ring-b16.json", lambda trial: trial.update(critical_path=path))
    return run_dir


def test_a_run_without_predictions_is_not_asked(run: Run) -> None:
    assert asked(run, "critical-path") is None


def test_stages_are_bars_in_the_rows_of_servers_and_links(run_dir: Path, edit: Edit) -> None:
    question = answer(load(with_path(run_dir, edit, PATH)), "critical-path")
    assert question.frame["row"].tolist() == [0, 1, 2, 1]
    assert question.frame["sort"].tolist() == ["forward pass", "outputs", "backward pass", "AllReduce"]
    (panel,) = question.panels
    (trace,) = panel.figure["data"]
    assert trace["x"] == {"column": "end_s", "minus": "start_s", "times": 1000}
    assert len(set(trace["marker"]["color"])) == 4
    assert panel.figure["layout"]["yaxis"]["ticktext"] == ["h0", "h0-p1-h3", "h3"]


def test_shares_add_up_where_stages_overlap(run_dir: Path, edit: Edit) -> None:
    """The transfer counts until the pass that it lets begin."""
    (row,) = answer(load(with_path(run_dir, edit, PATH)), "critical-path").told
    shares = [row[sort] for sort in ("forward pass", "outputs", "backward pass", "gradients of outputs", "AllReduce")]
    assert shares == ["20%", "20%", "20%", "0%", "40%"]
    assert row["Predicted iteration"] == words.seconds(0.5)


def test_a_damaged_path_is_told(run_dir: Path, edit: Edit) -> None:
    with pytest.raises(OutputError, match="damaged"):
        load(with_path(run_dir, edit, [PATH[0] | {"end_s": None}]))
