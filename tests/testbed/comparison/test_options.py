"""Options of commands that compare, and the exit codes of what they find."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.analysis.cell import Cell
from testbed.analysis.comparing.compare import Comparison, Failures, Judged
from testbed.analysis.comparing.measured import Measured, Side
from testbed.base import exits
from testbed.base.errors import UsageError
from testbed.comparison.options import exit_code, pairs, wanted


def found(*verdicts: str, unmeasured: bool = False, failures: bool = False, accepted: bool = False) -> Comparison:
    """A comparison with those verdicts, perhaps without VALID trials where inconclusive, or with more failures."""
    cell = Cell("ring", 16)
    judged = tuple(
        Judged(cell, "gst", "ring", verdict, (), (), 0.03, unmeasured=unmeasured and verdict == "inconclusive")  # type: ignore[arg-type]
        for verdict in verdicts
    )
    failing = (Failures(cell, "ring", (0, 10), (4, 10)),) if failures else ()
    return Comparison("a", "b", "mine", False, judged, (), (), failing, accepted, (), (), frozenset())


@pytest.mark.parametrize(
    ("verdicts", "accept", "code"),
    [
        (["same", "better"], False, exits.OK),
        (["same", "inconclusive"], False, exits.UNDECIDED),
        (["same", "inconclusive"], True, exits.OK),
        (["worse", "inconclusive"], True, exits.REGRESSION),
    ],
)
def test_exit_codes(verdicts: list[str], accept: bool, code: int) -> None:
    assert exit_code(found(*verdicts), accept) == code


def test_what_has_no_valid_trial_is_not_accepted_as_inconclusive() -> None:
    assert exit_code(found("same", "inconclusive", unmeasured=True), True) == exits.UNDECIDED


def test_more_failures_are_a_regression_unless_they_are_accepted() -> None:
    assert exit_code(found("same", failures=True)) == exits.REGRESSION
    assert exit_code(found("same", failures=True), True) == exits.REGRESSION
    assert exit_code(found("same", failures=True, accepted=True)) == exits.OK
    assert exit_code(found("same", "inconclusive", failures=True, accepted=True)) == exits.UNDECIDED
    assert exit_code(found("worse", failures=True, accepted=True)) == exits.REGRESSION


def test_thresholds() -> None:
    assert wanted([]) == {"gst": 0.03, "jct": 0.03, "throughput": 0.03}
    assert wanted(["5%"]) == {"gst": 0.05, "jct": 0.05, "throughput": 0.05}
    assert wanted(["5 %", "gst=0.01"], ["gst", "jct"]) == {"gst": 0.01, "jct": 0.05}


@pytest.mark.parametrize(
    ("thresholds", "metrics", "problem"),
    [
        (["gts=5%"], [], "--threshold: there is no metric 'gts'"),
        (["gst=5"], [], "--threshold gst=5: '5' is not a share of a whole"),
        (["jct=5%"], ["gst"], "--threshold jct=5%: jct is not compared, only gst"),
        (["gst="], [], "--threshold gst=: '' is not a share"),
        (["0"], [], "--threshold 0: a threshold of 0 would count every difference"),
        ([], ["GST"], "--metric: there is no metric 'GST'"),
    ],
)
def test_thresholds_with_a_mistake(thresholds: list[str], metrics: list[str], problem: str) -> None:
    with pytest.raises(UsageError) as error:
        wanted(thresholds, metrics)
    assert error.value.problem == problem
    assert error.value.fix


STAR = "ring on star(hosts=3)"


def having(*labels: str) -> Side:
    cells = [Cell(label, 16) for label in labels]
    return Side("side", Path(), "mine", {}, {}, tuple(Measured("", cell, 0, "", "VALID", {}, {}) for cell in cells))


def test_pairs_of_arms() -> None:
    base, new = having("PS", STAR), having("ring", STAR, "tree=1")
    assert pairs([], base, new) is None
    assert pairs(["PS=ring", "PS=tree=1", "PS=ring"], base, new) == [("PS", "ring"), ("PS", "tree=1")]
    assert pairs([f"{STAR}=ring", f"PS={STAR}", f"{STAR}={STAR}"], base, new) == [
        (STAR, "ring"),
        ("PS", STAR),
        (STAR, STAR),
    ]
    for text in ("PS", "=ring", "PS=", "="):
        with pytest.raises(UsageError, match="does not name two labels\n"):
            pairs([text], base, new)


def test_pairs_of_arms_that_are_not_there_or_may_be_several() -> None:
    with pytest.raises(UsageError) as error:
        pairs(["PS=tree"], having("PS", STAR), having("ring"))
    assert error.value.problem == "--arms PS=tree: NEW has no arm 'tree', only 'ring'"
    with pytest.raises(UsageError) as error:
        pairs(["PS=rign"], having("PS", "ring"), having("PS", "ring"))
    assert error.value.problem == "--arms PS=rign: NEW has no arm 'rign', only 'PS', 'ring'"
    with pytest.raises(UsageError) as error:
        pairs(["P=rign"], having("PS"), having("ring"))
    assert error.value.problem == "--arms P=rign: BASE has no arm 'P', only 'PS'; NEW has no arm 'rign', only 'ring'"
    with pytest.raises(UsageError) as error:
        pairs([f"{STAR}=tree"], having(STAR), having("ring"))
    assert error.value.problem == f"--arms {STAR}=tree: NEW has no arm 'tree', only 'ring'"
    with pytest.raises(UsageError, match="can mean 'a' with 'b=c' or 'a=b' with 'c'"):
        pairs(["a=b=c"], having("a", "a=b"), having("c", "b=c"))
