"""Runs of one experiment side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.beside import beside, write
from analysis.load import load
from testbed.errors import OutputError

from .conftest import write_run


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


def test_other_experiments_are_refused(two: list[Path], edit: Callable[..., None]) -> None:
    edit(two[1] / "resolved.json", lambda resolved: resolved.update(seed=2))
    with pytest.raises(OutputError) as caught:
        beside([load(path) for path in two])
    assert str(caught.value) == (
        f"{two[0]} and {two[1]} are runs of different experiments: seed is 1 and 2\n"
        "  fix: give runs of one spec, such as those of --backend netns and --backend mininet"
    )


def test_the_page_shows_both_and_is_the_same_again(two: list[Path], tmp_path: Path) -> None:
    page = write(two, tmp_path / "both.html").read_text()
    assert "BML on BCube (netns)" in page
    assert "BML on BCube (mininet)" in page
    assert "model (mininet)" in page
    assert write(two, tmp_path / "again.html").read_text() == page
