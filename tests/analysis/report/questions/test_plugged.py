"""Questions that installed packages add: the example of docs/extend/question.md, as files of a distribution."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.analysis import report
from testbed.analysis.load import load
from testbed.analysis.recorded import Run
from testbed.analysis.report.questions import BUILT_IN, answered
from testbed.base.errors import UsageError
from testbed.base.plugins import plugged

ASKED = "How long did the slowest synchronisations take?"


@pytest.fixture
def example(root: Path) -> str:
    """The Python of the page."""
    return _block((root / "docs/extend/question.md").read_text(), "python")


@pytest.fixture(autouse=True)
def installed(root: Path, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's package."""
    points = _block((root / "docs/extend/question.md").read_text(), "toml")
    points = points.replace('[project.entry-points."testbed.questions"]', "[testbed.questions]").replace('"', "")
    folder = tmp_path / "site"
    info = folder / "slowest-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slowest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    (folder / "slowest.py").write_text(example)
    monkeypatch.syspath_prepend(folder)
    plugged.cache_clear()
    yield folder
    plugged.cache_clear()
    sys.modules.pop("slowest", None)


def test_the_page_and_markdown_have_it(run_dir: Path) -> None:
    page = report.text([run_dir], "html")
    assert f"<h2>{ASKED}</h2>" in page
    assert 'data-panel="slowest-1"' in page
    assert f"## {ASKED}\n\n- Ring on fat-tree at batch" in report.text([run_dir], "md")


def test_it_comes_after_those_of_testbed(run_dir: Path) -> None:
    names = [question.name for question in answered(load(run_dir))]
    assert names[-1] == "slowest"
    assert set(names[:-1]) <= set(BUILT_IN)


def test_a_sweep_has_it_too(sweep: Run) -> None:
    frame = answered(sweep)[-1].frame
    assert frame["gst_p95_s_low"].le(frame["gst_p95_s"]).all()


def test_it_is_not_asked_where_nothing_is_known(sweep: Run) -> None:
    trials = tuple(replace(t, metrics=replace(t.metrics, gst_p95_s=None)) for t in sweep.trials)
    assert answered(replace(sweep, trials=trials))[-1].name != "slowest"


def test_another_name_than_its_entry_points_is_refused(installed: Path, example: str, run_dir: Path) -> None:
    (installed / "slowest.py").write_text(example.replace('name="slowest"', 'name="jct"'))
    with pytest.raises(UsageError, match=r"the entry point slowest of testbed\.questions .* whose name is 'jct'"):
        answered(load(run_dir))


def _block(page: str, language: str) -> str:
    match = re.search(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert match
    return match[1]
