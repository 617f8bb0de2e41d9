"""``testbed report``: where it writes, and in which format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from testbed.analysis import report
from testbed.cli import app


def call(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["report", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("form", report.FORMATS)
def test_each_format_has_its_file(run_dir: Path, form: str) -> None:
    assert call(run_dir, "--format", form) == f"report: {run_dir / report.FORMATS[form]}\n"
    assert (run_dir / report.FORMATS[form]).read_text() == report.text([run_dir], form)


def test_standard_output_takes_it_too(run_dir: Path) -> None:
    assert call(run_dir, "--format", "md", "--out", "-") == report.text([run_dir], "md")
    assert not (run_dir / "report.md").exists()


def test_another_file_takes_one_runs_report(run_dir: Path, tmp_path: Path) -> None:
    found = json.loads(call(run_dir, "--format", "latex", "--out", tmp_path / "t.tex", "--json"))
    assert found == {"runs": [str(run_dir)], "report": str(tmp_path / "t.tex")}
    assert (tmp_path / "t.tex").read_text().startswith("% needs")
