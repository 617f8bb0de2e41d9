"""Data as a page has it."""

from __future__ import annotations

import json

import pandas as pd

from testbed.analysis.report.question import Panel, Question, rounded


def ask(frame: pd.DataFrame) -> str:
    return Question("q", "?", frame, (Panel("p", "c", {"data": []}),), (), "").json()


def test_texts_that_repeat_are_there_once() -> None:
    frame = pd.DataFrame({"arm": ["a", "a", "b", "b"], "n": [1, 2, 3, 4], "x": [0.1234567891, None, float("inf"), 2.0]})
    assert json.loads(ask(frame)) == {
        "columns": {"arm": {"of": ["a", "b"], "at": [0, 0, 1, 1]}, "n": [1, 2, 3, 4], "x": [0.123457, None, None, 2]},
        "figures": {"p": {"data": []}},
    }


def test_numbers_have_six_digits() -> None:
    assert [rounded(value) for value in (1234567.0, 0.00012345678)] == [1234570, 0.000123457]
    assert [rounded(value) for value in (5.0, float("nan"), float("-inf"))] == [5, None, None]
