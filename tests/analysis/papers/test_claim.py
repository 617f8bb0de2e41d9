"""A statement holds, fails or cannot be told, by where the whole interval is."""

from __future__ import annotations

import math

import pytest

from testbed.analysis.numbers.statistics import Interval
from testbed.analysis.papers.claim import (
    Finding,
    Row,
    Statement,
    Verdict,
    falling,
    near,
    near_beyond_1,
    number,
    rising,
    stated,
    true,
    within,
)
from testbed.analysis.papers.evidence import Measured

HOLDS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED


def row(low: float, high: float, paper: float | None = None, name: str = "GST") -> Row:
    ours = Measured((low, high), "trials", 3, 3, (), Interval((low + high) / 2, low, high))
    return Row(name, "s", paper, None, ours)


def unknown(*doubts: str, samples: tuple[float, ...] = ()) -> Row:
    return Row("GST", "s", 1.0, 1.0, Measured(samples, "iterations", 0, 1, doubts))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.0, 2.0, HOLDS),
        (1.2, 1.4, HOLDS),
        (0.9, 1.1, UNDECIDED),
        (1.9, 2.1, UNDECIDED),
        (0.5, 3.0, UNDECIDED),
        (0.8, 0.9, FAILS),
        (2.1, 2.2, FAILS),
        (-math.inf, math.inf, UNDECIDED),
    ],
)
def test_within(low: float, high: float, verdict: Verdict) -> None:
    assert within("it is 1 to 2", row(low, high), 1.0, 2.0).verdict == verdict


def test_why() -> None:
    assert within("GST: fine", row(0.8, 0.9), 1.0, 2.0).why == "0.85 s (0.8 to 0.9 s), where 1 to 2 s would agree"
    assert within("fine", row(0.8, 0.9), 1.0).why == "GST: 0.85 s (0.8 to 0.9 s), where at least 1 s would agree"
    assert within("GST: fine", Row("GST", "%", None, 12.0), high=10).why == "12.0 %, where at most 10.0 % would agree"
    assert within("fine", row(1.0, 2.0), 1.0).why == ""


@pytest.mark.parametrize(("value", "verdict"), [(1.04, HOLDS), (0.96, HOLDS), (1.06, FAILS), (0.94, FAILS)])
def test_near_what_the_paper_says(value: float, verdict: Verdict) -> None:
    assert near("as the paper", row(value, value, paper=1.0), 0.05).verdict == verdict
    assert near("as the paper", Row("model", "", 1.0, value), 0.05).verdict == verdict


@pytest.mark.parametrize(
    ("paper", "value", "verdict"),
    [
        (1.4, 1.3, HOLDS),
        (1.4, 1.0, FAILS),
        (1.076, 1.0, FAILS),
        (1.076, 1.09, HOLDS),
        (0.84, 0.88, HOLDS),
        (0.84, 1.0, FAILS),
    ],
)
def test_what_a_ratio_has_beyond_1(paper: float, value: float, verdict: Verdict) -> None:
    assert near_beyond_1("as the paper", row(value, value, paper=paper), 0.3).verdict == verdict


@pytest.mark.parametrize(
    ("one", "two", "verdict"),
    [
        ((1.0, 1.1), (1.2, 1.3), HOLDS),
        ((1.2, 1.3), (1.0, 1.1), FAILS),
        ((1.0, 1.2), (1.1, 1.3), UNDECIDED),
        ((1.0, 1.0), (1.0, 1.0), FAILS),
    ],
)
def test_order(one: tuple[float, float], two: tuple[float, float], verdict: Verdict) -> None:
    rows = [row(*one, name="first"), row(*two, name="second")]
    assert rising("it grows", rows).verdict == verdict
    assert falling("it falls", rows[::-1]).verdict == verdict


def test_order_of_several_fails_with_any() -> None:
    rows = [row(1, 1.1), row(1.05, 1.2), row(3, 3.1), row(2, 2.1, name="last")]
    assert rising("it grows", rows[:3]).verdict == UNDECIDED
    assert rising("it grows", rows).verdict == FAILS
    assert "is not below last (2.05 s" in rising("it grows", rows).why


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (unknown("a: INVALID (steal)", "a: INVALID (steal)", "b: was not run"), "a: INVALID (steal); b: was not run"),
        (unknown(samples=(1.0,)), "1 samples are too few"),
        (Row("GST", "s", 1.0, None), "it is not modelled"),
    ],
)
def test_what_is_not_known_is_not_decided(found: Row, why: str) -> None:
    assert within("GST: fine", found, 0, 2) == Statement("GST: fine", UNDECIDED, why)
    assert near("GST: fine", found, 0.5).verdict == UNDECIDED
    assert rising("grows", [found, row(1, 2)]).verdict == UNDECIDED


def test_what_is_exact() -> None:
    assert true("so it is", True, "no") == Statement("so it is", HOLDS)
    assert true("so it is", False, "it is not") == Statement("so it is", FAILS, "it is not")


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, UNDECIDED], UNDECIDED),
        ([UNDECIDED, FAILS, HOLDS], FAILS),
    ],
)
def test_a_claim_is_its_worst_statement(verdicts: list[Verdict], verdict: Verdict) -> None:
    assert Finding((), tuple(Statement("", one) for one in verdicts)).verdict == verdict


def test_numbers_as_text() -> None:
    assert [number(1.7777, "T_F"), number(56.42, "%"), number(12.0), number(1234.5, "$")] == [
        "1.78 T_F",
        "56.4 %",
        "12",
        "1,234 $",
    ]
    assert [stated(None), stated((18.7, 56.4), "%"), stated(2.0, "x")] == ["-", "18.7 to 56.4 %", "2 x"]
    assert stated((1.0, math.inf), "x") == "1 x or more"
    assert stated((-math.inf, math.inf), "x") == number(math.inf) == "unknown"
