"""What decides the predicted iteration: bars, and the share of each sort."""

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
from testbed.analysis.report.questions import strategies
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
    monkeypatch.setattr(strategies, "MOST_SERVERS", 8)
    question = answer(load(placed), "pairs")
    assert question.panels == ()
    assert len(question.told) == 1
    assert question.defined.endswith("Drawn are 0 of 1 arms.")


def test_an_older_record_lacks_the_times(placed: Path, edit: Edit) -> None:
    edit(placed / "trials" / "ring-b16.json", lambda trial: [trial["metrics"].pop(name) for name in TIMES])
    (row,) = answer(load(placed), "pairs").told
    assert row["Predicted / measured"] == row["Iteration"] == words.UNKNOWN
    assert json.loads((placed / "trials" / "ring-b16.json").read_text())["pairs"]


def with_found(run_dir: Path, found: dict[str, Any]) -> Path:
    path = run_dir / "resolved.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"found": found}))
    return run_dir


def test_a_run_that_searched_for_nothing_is_not_asked(run_dir: Path, run: Run) -> None:
    assert asked(run, "search") is None
    given = load(with_found(run_dir, {"0": {"topology": "star(hosts=3)", "strategy": "data"}}))
    assert asked(given, "search") is None


def test_the_best_is_drawn_until_the_last_step(run_dir: Path) -> None:
    course = {"steps": 60, "costs_s": [[0, 2.0], [7, 1.5], [31, 1.0]], "rounds_s": [1.0]}
    run = load(with_found(run_dir, {"1": {"strategy": "data", "search": course}}))
    question = answer(run, "search")
    assert question.frame["step"].tolist() == [0, 7, 31, 60]
    assert question.frame["iteration_s"].tolist() == [2.0, 1.5, 1.0, 1.0]
    assert set(question.frame["arm"]) == {run.labels[1]}
    (row,) = question.told
    assert (row["Steps"], row["First / best"], row["Found at step"]) == ("60", words.ratio(2.0), "31")


@pytest.mark.parametrize("costs", [[["a", 1.0]], [[0]], [[0, -1.0]], [0, 1.0]])
def test_a_damaged_course_is_told(run_dir: Path, costs: list[Any]) -> None:
    with pytest.raises(OutputError, match=r"resolved\.json"):
        load(with_found(run_dir, {"0": {"search": {"steps": 5, "costs_s": costs}}}))
