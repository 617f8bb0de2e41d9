"""Run directories in pandas: whole ones, failed trials, and those of strangers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import testbed
from testbed.base.errors import OutputError, UsageError
from tests.analysis.conftest import write_run


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A made-up run of six trials, of which one failed and one is INVALID."""
    return write_run(tmp_path / "quickstart")


def test_a_failed_trial_is_told(directory: Path) -> None:
    run = testbed.load(directory)
    assert run.failed == ("ps-b64",)
    assert repr(run) == f"<Run quickstart: 6 trials, 1 FAILED, in {directory}>"
    trial = run["ps-b64"]
    assert (trial.failed, trial.verdict, trial.samples) == (True, None, None)
    assert repr(trial) == "<Trial ps-b64: FAILED>"
    assert run.table.loc["ps-b64", "status"] == "failed"
    assert run.table.loc["ps-b64", "error"] == trial.error
    assert (run.table["verdict"] == "VALID").sum() == 4


def test_numbers_are_those_of_the_trial(directory: Path) -> None:
    run = testbed.load(directory)
    trial = run["bml-b16"]
    assert run.table.loc["bml-b16", "gst_median_s"] == trial.metrics["gst_median_s"]
    assert len(trial.links) == len(trial.recorded.links) > 0
    assert trial.samples is not None
    assert len(trial.samples) == 9 * 20
    assert list(run["ps-b64"].events.columns)[:2] == ["kind", "what"]


def test_a_sweep_has_a_column_for_each_field(tmp_path: Path) -> None:
    run = testbed.load(write_run(tmp_path / "swept", 3, (50, 100, 200)))
    assert run.table["links.rate"].nunique() == 3
    assert next(iter(run)).point


def test_an_unknown_trial_is_answered_with_the_nearest(directory: Path) -> None:
    with pytest.raises(UsageError, match="has no trial 'bml-b17'") as error:
        testbed.load(directory)["bml-b17"]
    assert error.value.fix == "did you mean 'bml-b16'?"


def test_a_page_of_a_run_has_no_markup_from_files(directory: Path) -> None:
    resolved = json.loads((directory / "resolved.json").read_text())
    for record in (directory / "trials").glob("*.json"):
        told = json.loads(record.read_text())
        told["label"] = f"<script>{told['label']}"
        record.write_text(json.dumps(told))
    for arm in resolved["arms"]:
        arm["label"] = f"<script>{arm['label']}"
    (directory / "resolved.json").write_text(json.dumps(resolved))
    shown = testbed.load(directory)._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown


def test_a_report_is_written_and_named(directory: Path, tmp_path: Path) -> None:
    run = testbed.load(directory)
    assert run.report() == directory / "report.html"
    assert run.report(tmp_path / "run.md", "md").read_text().startswith("# quickstart")
    with pytest.raises(UsageError, match="no such format"):
        run.report(form="pdf")  # type: ignore[arg-type]


def test_what_is_no_run_or_damaged_is_refused(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="not a run directory"):
        testbed.load(tmp_path)
    run = testbed.load(directory)
    table = directory / "samples" / "bml-b16.parquet"
    table.unlink()
    with pytest.raises(OutputError, match="missing"):
        _ = run["bml-b16"].samples
    table.symlink_to("/etc/passwd")
    with pytest.raises(OutputError, match=r"bml-b16\.parquet"):
        _ = run["bml-b16"].samples
    table.unlink()
    os.mkfifo(table)
    with pytest.raises(OutputError, match="no regular file"):
        _ = run["bml-b16"].samples
    (directory / "trials" / "bml-b16.json").write_text("{")
    with pytest.raises(OutputError, match=r"bml-b16\.json"):
        testbed.load(directory)


def test_an_empty_run_has_an_empty_table(directory: Path) -> None:
    for record in (directory / "trials").iterdir():
        record.unlink()
    run = testbed.load(directory)
    assert (len(run), len(run.table)) == (0, 0)
    assert "<p>" in run._repr_html_()
