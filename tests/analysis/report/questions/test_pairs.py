"""Bytes by pair of servers, measured beside predicted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report import words
from testbed.analysis.report.question import rounded
from testbed.analysis.report.questions import pairs

from ..helpers import answer, asked

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]
ITERATIONS = 20
TIMES = {
    "iteration_median_s": 0.4,
    "iteration_predicted_s": 0.38,
    "mp_wait_forward_s": 0.012,
    "mp_wait_backward_s": 0.0,
}


@pytest.fixture
def placed(run_dir: Path, edit: Edit) -> Path:
    """The made-up run, of which one trial has counted bytes by pair: 3 MiB and 1 MiB an iteration."""

    def count(trial: dict[str, Any]) -> None:
        trial["pairs"] = [
            {"from": "h0", "to": "h1", "bytes": 60 * 2**20, "theory_bytes": 60 * 2**20, "mp_bytes": 20 * 2**20},
            {"from": "h1", "to": "h0", "bytes": 20 * 2**20, "theory_bytes": 20 * 2**20, "mp_bytes": 0},
        ]
        trial["metrics"] |= TIMES

    edit(run_dir / "trials" / "ring-b16.json", count)
    return run_dir


def test_a_run_without_pairs_is_not_asked(run: Run) -> None:
    assert asked(run, "pairs") is None


def test_measured_is_drawn_beside_predicted(placed: Path) -> None:
    question = answer(load(placed), "pairs")
    assert question.frame["bytes"].tolist() == [3 * 2**20, 2**20]
    assert question.frame["mp_bytes"].tolist() == [2**20, 0]
    (panel,) = question.panels
    measured, predicted = panel.figure["data"]
    assert (measured["z"], predicted["z"]) == ({"column": "bytes"}, {"column": "predicted_bytes"})
    assert measured["zmax"] == predicted["zmax"] == rounded(3 * 2**20)
    assert predicted["xaxis"] == "x2"
    assert panel.figure["layout"]["yaxis"]["categoryarray"] == ["h0", "h1"]


def test_times_and_bytes_are_told(placed: Path) -> None:
    (row,) = answer(load(placed), "pairs").told
    assert row["Sent in an iteration"] == "4\u00a0MiB"
    assert row["Measured / predicted"] == words.ratio(1.0)
    assert row["Outputs and their gradients"] == "1\u00a0MiB"
    assert row["Predicted / measured"] == words.ratio(0.95)
    assert row["MP wait, forward"] == "12.0\u00a0ms"


def test_many_servers_are_told_and_not_drawn(placed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MOST_SERVERS", 8)
    question = answer(load(placed), "pairs")
    assert question.panels == ()
    assert len(question.told) == 1
    assert question.defined.endswith("Drawn are 0 of 1 arms.")


def test_an_older_record_lacks_the_times(placed: Path, edit: Edit) -> None:
    edit(placed / "trials" / "ring-b16.json", lambda trial: [trial["metrics"].pop(name) for name in TIMES])
    (row,) = answer(load(placed), "pairs").told
    assert row["Predicted / measured"] == row["Iteration"] == words.UNKNOWN
    assert json.loads((placed / "trials" / "ring-b16.json").read_text())["pairs"]
