"""Comparisons in Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import testbed
from testbed.base import exits
from testbed.base.errors import IncomparableError, OutputError, UsageError
from tests.analysis.conftest import write_run

from ..sides import write_side


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Baselines; the second is a tenth slower."""
    base, new = tmp_path / "base.json", tmp_path / "new.json"
    write_side(base)
    write_side(new, 0.22)
    return base, new


def test_a_slower_run_is_worse(sides: tuple[Path, Path]) -> None:
    found = testbed.compare(*sides)
    assert (found.is_worse, found.is_inconclusive) == (True, False)
    row = found.table.iloc[0]
    assert (row["label"], row["metric"], row["verdict"]) == ("ring", "gst", "worse")
    assert row["low"] <= row["ratio"] <= row["high"]
    assert row["ratio"] == pytest.approx(1.1, abs=0.01)
    assert "1 worse" in repr(found)
    assert "worse" in str(found)


def test_thresholds_and_metrics_are_the_command_lines(sides: tuple[Path, Path]) -> None:
    assert not testbed.compare(*sides, threshold="50%").is_worse
    assert not testbed.compare(*sides, threshold={"gst": "50%"}, metrics=["gst"]).is_worse
    with pytest.raises(UsageError, match="there is no metric 'speed'"):
        testbed.compare(*sides, metrics=["speed"])


def test_conditions_that_differ_must_be_allowed(sides: tuple[Path, Path]) -> None:
    write_side(sides[1], kernel="6.9")
    with pytest.raises(IncomparableError, match="kernel"):
        testbed.compare(*sides)
    assert any("kernel" in note for note in testbed.compare(*sides, allow=["kernel"]).notes)


def test_arms_of_one_run_are_compared_in_pairs(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", repeats=3) / "resolved.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"lab": "netns", "links": {"rate_bps": 200_000_000}}))
    run = testbed.load(path.parent)
    found = testbed.compare(run, run.path, arms={"PS on fat-tree": "BML on BCube"})
    assert found.found.paired
    assert found.is_inconclusive
    assert found.table["ratio"].notna().any()


def test_a_page_of_a_comparison_has_no_markup_from_files(sides: tuple[Path, Path]) -> None:
    for side in sides:
        write_side(side, label="<script>")
    shown = testbed.compare(*sides)._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown


def test_what_cannot_be_read_is_refused(sides: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        testbed.compare(sides[0], tmp_path / "nothing.json")


def test_it_is_written_in_every_format_and_has_the_command_lines_exit_code(
    sides: tuple[Path, Path], tmp_path: Path
) -> None:
    found = testbed.compare(*sides)
    found.save(tmp_path / "found.json", "json")
    assert json.loads((tmp_path / "found.json").read_text())["judged"][0]["verdict"] == "worse"
    assert found.text("junit").startswith("<?xml")
    assert found.text() == str(found)
    assert found.exit_code() == exits.REGRESSION


def test_thresholds_and_arms_may_be_words_of_the_command_line(sides: tuple[Path, Path]) -> None:
    assert not testbed.compare(*sides, threshold=["gst=50%"], metrics=["gst"]).is_worse
    assert testbed.compare(*sides, arms=["ring=ring"]).is_worse
    with pytest.raises(UsageError, match="does not name two labels"):
        testbed.compare(*sides, arms=["ring"])
