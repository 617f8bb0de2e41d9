"""How a search went: the best after each step, of each arm whose strategy was searched for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report import words
from testbed.base.errors import OutputError

from ..helpers import answer, asked


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
