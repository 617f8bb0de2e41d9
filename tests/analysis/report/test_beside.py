"""Runs of one experiment side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.analysis.load import load
from testbed.analysis.report import settings, write
from testbed.analysis.report.beside import beside

from ..conftest import write_run


@pytest.fixture
def two(tmp_path: Path, edit: Callable[..., None]) -> list[Path]:
    """The same experiment in two labs."""
    found = []
    for lab in ("netns", "mininet"):
        found.append(write_run(tmp_path / f"in-{lab}"))
        edit(found[-1] / "resolved.json", lambda resolved, lab=lab: resolved.update(lab=lab))
        edit(found[-1] / "env.json", lambda known, lab=lab: known.update(cpu={"model": f"CPU of {lab}"}))
    return found


def test_each_arm_stands_beside_itself(two: list[Path]) -> None:
    both = beside([load(path) for path in two])
    assert both.labels[:4] == (
        "PS on fat-tree (netns)",
        "PS on fat-tree (mininet)",
        "Ring on fat-tree (netns)",
        "Ring on fat-tree (mininet)",
    )
    one = load(two[0])
    assert len(both.trials) == 2 * len(one.trials)
    assert [trial.label for trial in both.trials[:2]] == list(both.labels[:2])
    assert (one.planned, both.planned) == (6, 12)
    assert len({trial.id for trial in both.trials}) == len(both.trials)
    assert both.environment["kernel"] == "6.18.5"
    assert both.environment["cpu"] == {"model (netns)": "CPU of netns", "model (mininet)": "CPU of mininet"}
    assert set(both.environment["lab"]) == {"ps-b16 (netns)", "ps-b16 (mininet)"}


def test_runs_in_the_same_lab_go_by_their_directories(two: list[Path], edit: Callable[..., None]) -> None:
    edit(two[1] / "resolved.json", lambda resolved: resolved.update(lab="netns"))
    assert beside([load(path) for path in two]).labels[:2] == (
        "PS on fat-tree (in-netns)",
        "PS on fat-tree (in-mininet)",
    )


def test_other_specs_stand_side_by_side_with_their_differences(two: list[Path], edit: Callable[..., None]) -> None:
    def other(resolved: dict[str, Any]) -> None:
        resolved["seed"] = 2
        resolved["links"] = {"rate_bps": 10**9}
        resolved["arms"][1]["scheme"] = "gloo"
        resolved["arms"] = [*resolved["arms"][:2], {"label": "tree", "topology": "star(hosts=9)", "scheme": "tree"}]

    edit(two[1] / "resolved.json", other)
    both = beside([load(path) for path in two])
    assert both.labels[-3:] == ("BML on BCube (netns)", "BML on BCube (mininet)", "tree (mininet)")
    assert dict(settings.of_specs(both.parts)) == {
        "seed": ("1", "2"),
        "lab": ("netns", "mininet"),
        "links.rate_bps": ("–", "1,000,000,000"),
        "arm Ring on fat-tree.scheme": ("ring", "gloo"),
        "arm BML on BCube": ("bml on bcube(n=3,k=2)", "–"),
        "arm tree": ("–", "tree on star(hosts=9)"),
    }
    assert settings.of_environments(both.parts) == (("cpu.model", ("CPU of netns", "CPU of mininet")),)


def test_differences_come_first(two: list[Path], tmp_path: Path) -> None:
    page = write(two, tmp_path / "both.html").read_text()
    assert page.index("<h2>Differences</h2>") < page.index("CPU of mininet") < page.index("Arms side by side")
    text = write(two, tmp_path / "both.md", "md").read_text()
    assert "| cpu.model | CPU of netns | CPU of mininet |" in text


def test_the_same_run_twice_differs_in_nothing(two: list[Path], tmp_path: Path) -> None:
    page = write([two[0], two[0]], tmp_path / "both.html").read_text()
    assert "The runs have the same spec and the same environment." in page


def test_the_page_shows_both_and_is_the_same_again(two: list[Path], tmp_path: Path) -> None:
    page = write(two, tmp_path / "both.html").read_text()
    assert "BML on BCube (netns)" in page
    assert "BML on BCube (mininet)" in page
    assert "model (mininet)" in page
    assert write(two, tmp_path / "again.html").read_text() == page
