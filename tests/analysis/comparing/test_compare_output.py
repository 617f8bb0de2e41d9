"""A comparison in every form that it is told in."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from testbed.analysis.cell import Cell
from testbed.analysis.comparing import compare_output
from testbed.analysis.comparing.compare import Comparison, compare

from ..sides import RING, about, measured, side, with_verdicts

PS = Cell("PS | <b>", 16)
GONE = Cell("gone\x01", 64)


@pytest.fixture
def found() -> Comparison:
    """Worse, same and missing, with trials left out, in one metric."""
    base = side("base.json", {RING: about(0.2), PS: about(0.1), GONE: about(0.1)})
    new = with_verdicts(side("new", {RING: about(0.25, 11), PS: about(0.1, seed=2)}), "INVALID")
    return compare(base, new, thresholds={"gst": 0.03})


def test_the_table_has_a_row_for_each_metric_of_each_cell(found: Comparison) -> None:
    lines = compare_output.text(found).splitlines()
    assert lines[0].split() == [
        "arm",
        "batch",
        "metric",
        "BASE",
        "NEW",
        "ratio",
        "95",
        "%",
        "interval",
        "p",
        "trials",
        "verdict",
    ]
    assert lines[1].split()[:3] == ["ring", "16", "GST"]
    assert lines[1].endswith("10 / 10     worse") or lines[1].split()[-4:] == ["10", "/", "10", "worse"]
    assert lines[2].split()[-1] == "same"
    assert lines[3].split()[-1] == "inconclusive"
    assert "not compared: gone\x01, batch 64: GST: new does not have it" in lines
    assert "left out: ring-b16-r1 of new is INVALID" in lines
    assert "suspicious: ring, batch 16; testbed run SPEC --baseline measures it again" in lines
    assert lines[-1] == "1 worse, 1 same, 1 inconclusive: new against base.json; changes above 3 % count"


def test_rows_without_a_number_are_counted(found: Comparison) -> None:
    empty = replace(found.judged[2], base=(), new=(), ratio=None, p_value=None)
    folded = replace(found, judged=(*found.judged[:2], empty, empty))
    line = "not in the table: 2 rows without VALID numbers to compare"
    lines = compare_output.text(folded).splitlines()
    assert [text.split()[0] for text in lines[1:3]] == ["ring", "PS"]
    assert lines[3:5] == ["", line]
    markdown = compare_output.markdown(folded)
    assert f"- {line}\n" in markdown
    assert sum(text.startswith("|") for text in markdown.splitlines()) == 2 + 2
    nothing = compare_output.text(replace(found, judged=(empty,))).splitlines()
    assert nothing[0] == "not in the table: 1 row without VALID numbers to compare"


def test_markdown_is_a_table_whatever_labels_hold(found: Comparison) -> None:
    lines = compare_output.markdown(found).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 3
    assert {line.replace("\\|", "").count("|") for line in table} == {len(compare_output.HEADER) + 1}
    assert "PS \\| \\<b\\>" in table[3]


def test_json_has_every_value(found: Comparison) -> None:
    value = json.loads(json.dumps(compare_output.as_json(found), allow_nan=False))
    assert value["counts"] == {"worse": 1, "better": 0, "same": 1, "inconclusive": 1}
    worse = value["judged"][0]
    assert (worse["verdict"], worse["metric"], len(worse["base"]), len(worse["new"])) == ("worse", "gst", 10, 10)
    assert worse["ratio"]["low"] > 1.2
    assert value["judged"][2]["ratio"] is None
    assert value["left_out"] == [{"side": "new", "id": "ring-b16-r1", "verdict": "INVALID", "metrics": ["gst"]}]
    assert value["failures"] == []


def test_junit_is_what_ci_servers_read(found: Comparison) -> None:
    """The elements, attributes and order of Jenkins' junit-10.xsd, and no more."""
    text = compare_output.junit(found)
    suites = ET.fromstring(text)  # ours
    assert suites.tag == "testsuites"
    (suite,) = suites
    assert (suite.tag, suite.get("tests"), suite.get("failures"), suite.get("skipped"), suite.get("errors")) == (
        *("testsuite", "3", "1", "1", "0"),
    )
    assert [child.tag for child in suite] == ["testcase"] * 3 + ["system-out"]
    cases = suite.findall("testcase")
    assert all({"name", "classname", "time"} == set(case.keys()) for case in cases)
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == 3
    assert [[child.tag for child in case] for case in cases] == [["failure"], [], ["skipped"]]
    failure = cases[0].find("failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("ring, batch 16: GST is worse: 0.2")
    skipped = cases[2].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "new does not have it"
    assert "\x01" not in text  # which no XML may hold


def test_pairs_and_other_arms_are_named() -> None:
    run = side("run", {RING: about(0.2), PS: about(0.2, seed=2)})
    found = compare(run, run, arms=[("ring", "PS | <b>")], thresholds={"gst": 0.03, "jct": 0.05})
    assert compare_output.rows(found)[0][0] == "PS | <b> / ring"  # as the ratio is: NEW over BASE
    assert compare_output.summary(found).endswith("in pairs; changes above 3 % of GST, 5 % of JCT count")
    assert compare_output.name(found.judged[0]) == "PS | <b> / ring, batch 16: GST"


def test_many_trials_left_out_are_counted() -> None:
    base = side("a", {RING: about(0.2)})
    invalid = tuple(measured(RING, 10 + i, 1.0, "INVALID") for i in range(20))
    new = side("b", {RING: about(0.2)})
    told = compare_output.notes(compare(base, replace(new, trials=(*new.trials, *invalid))))
    assert len(told) == compare_output.MOST_LEFT_OUT + 1
    assert told[-1] == "left out: 12 more trials, not VALID"


def test_cells_that_are_inconclusive_for_one_reason_are_told_in_one_line() -> None:
    gone = [Cell(f"ps{i}", 16) for i in range(6)]
    base = side("a", {RING: about(0.2)} | {cell: about(0.1) for cell in gone})
    told = compare_output.notes(compare(base, side("b", {RING: about(0.2, seed=2)}), thresholds={"gst": 0.03}))
    named = "; ".join(f"ps{i}, batch 16: GST" for i in range(4))
    assert told == [f"not compared: {named}; and 2 more: b does not have it"]


def test_a_cell_that_is_inconclusive_in_each_metric_is_named_once() -> None:
    told = compare_output.notes(compare(side("a", {RING: about(0.2)}), side("b", {RING: about(0.2)[:3]})))
    assert [line.partition(": too few repeats")[0] for line in told] == [
        "inconclusive: ring, batch 16: GST, JCT, samples/s"
    ]


def test_more_failures_are_told_in_every_form() -> None:
    base, new = side("base.json", {RING: about(0.2)}), side("new", {RING: about(0.2, seed=2)})
    new = with_verdicts(new, *["FAILED"] * 4)
    found = compare(base, new, thresholds={"gst": 0.03})
    said = "ring, batch 16: 4 of 10 trials FAILED, 0 of 10 in base.json"
    lines = compare_output.text(found).splitlines()
    assert f"more failures: {said}" in lines
    assert lines[-1] == "more failures in 1 cell, 1 same: new against base.json; changes above 3 % count"
    (entry,) = compare_output.as_json(found)["failures"]
    assert (entry["new"], entry["base"], entry["accepted"]) == (
        {"failed": 4, "trials": 10},
        {"failed": 0, "trials": 10},
        False,
    )
    suite = ET.fromstring(compare_output.junit(found))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "0")
    case = suite.findall("testcase")[1]
    assert (case.get("name"), [child.get("message") for child in case]) == ("ring, batch 16: failures", [said])


def test_failures_that_are_accepted_are_told_and_fail_nothing() -> None:
    base = side("base.json", {RING: about(0.2)})
    new = with_verdicts(side("new", {RING: about(0.2, seed=2)}), *["FAILED"] * 4)
    found = compare(base, new, thresholds={"gst": 0.03}, accept_failures=True)
    assert compare_output.notes(found)[0].startswith("more failures, accepted: ring, batch 16: 4 of 10 trials FAILED")
    assert compare_output.summary(found).startswith("more failures in 1 cell (accepted), 1 same: ")
    suite = ET.fromstring(compare_output.junit(found))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "0", "1")


def test_a_trial_that_counts_in_some_metrics_is_said_to_be_left_out_of_the_others() -> None:
    base, new = side("base.json", {RING: about(0.2)}), side("new", {RING: about(0.2, seed=2)})
    first = replace(new.trials[0], verdict="INVALID", verdicts=dict(new.trials[0].verdicts) | {"jct": "INVALID"})
    told = compare_output.notes(compare(base, replace(new, trials=(first, *new.trials[1:]))))
    assert "left out: ring-b16-r1 of new is INVALID in JCT" in told


def test_a_trial_that_nobody_watched_is_left_out_and_called_so() -> None:
    base = side("a", {RING: about(0.2)})
    new = with_verdicts(side("b", {RING: about(0.2)}), "UNWATCHED")
    assert compare_output.notes(compare(base, new))[0].startswith("left out: ring-b16-r1 of b is UNWATCHED")
