"""What commands print fits the terminal; a pipe gets all of it, a row a line."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from testbed.cli import app, experiment, main
from testbed.experiment.run import Run
from tests.shipped import BATCHES

from ..conftest import Called
from ..experiment.test_progress import FAILED, record
from ..sides import write_side
from ..terminal import shown, widest

ROOT = Path(__file__).parents[3]
WIDTHS = (80, 120)
NAMES = sorted(typer.main.get_command(app).commands) + [f"hosts {name}" for name in ("prepare", "collect", "reset")]  # type: ignore[attr-defined]
COMMANDS = [
    "schemes",
    "models",
    "doctor",
    "theory",
    "theory rina",
    "theory mlfabric",
    "topo 'bcube(n=3,k=2)'",
    "topo 'fat_tree(k=8)'",
    "forest bml 'bcube(n=3,k=2)'",
    "forest 'ssp(staleness=2)' 'star(hosts=5)'",
    *(f"schedule {path}" for path in BATCHES),
    f"plan {ROOT}/experiments/quickstart.yaml",
    f"plan {ROOT}/experiments/sweep.yaml",
    f"plan {ROOT}/experiments/rina/chain.yaml",
    "reproduce --list",
    "clean",
    "compare base.json slow.json",
    "compare base.json same.json --threshold gst=0.1%",
    "history .",
    "--help",
    "--version",
    *(f"{name} --help" for name in NAMES),
]


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, int], str]:
    """What a command shows, in the test's own directory, which has files to compare."""
    for name, gst_s in (("base", 0.2), ("same", 0.2005), ("slow", 0.25)):
        write_side(tmp_path / f"{name}.json", gst_s)

    def call(words: str, columns: int) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["testbed", *shlex.split(words)])
        return shown(main, columns, monkeypatch)

    return call


@pytest.mark.parametrize("words", COMMANDS)
def test_every_line_of_a_command_fits(words: str, on_terminal: Callable[[str, int], str]) -> None:
    for columns in WIDTHS:
        text = on_terminal(words, columns)
        assert text.strip()
        assert "error:" not in text
        longest = widest(text)
        assert len(longest) <= columns, longest


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_table_that_a_run_ends_with_fits(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record("a", "PS on a fat-tree", 12.0), record("b", "ring", 6.0), record("c", "BML", 6.0, **FAILED)]
    go_on = "testbed run --resume out"
    text = shown(lambda: experiment._print_comparison(Run(Path(), "ring", records), go_on), columns, monkeypatch)
    assert len(widest(text)) <= columns
    assert f"\n  {go_on}\n" in text  # in one piece, to be copied
    assert ("no room for: " in text) == (columns == 80)
    for name in ("GST", "speed-up", "verdict"):
        assert re.search(rf"\b{name}\b", text.split("no room")[0])


def test_a_pipe_gets_every_column_and_a_line_for_each_row(testbed: Callable[..., Called]) -> None:
    lines = testbed("models").out.split("\n\n")[0].splitlines()
    cells = [line.split("\t") for line in lines]
    assert cells[0] == ["model", "what it is", "trained on", "times", "parameters", "bytes", "MiB", "layers", "tensors"]
    assert {len(row) for row in cells} == {9}
    assert any("77,562 parameters" in row[1] for row in cells)  # in full


def test_a_picture_is_named(testbed: Callable[..., Called], tmp_path: Path) -> None:
    assert testbed("topo", "star(hosts=3)", "--draw", "net.svg").out.endswith("\npicture: net.svg\n")
    assert testbed("forest", "ring", "star(hosts=3)", "--draw", "trees.svg").out.endswith("\npicture: trees.svg\n")
    assert (tmp_path / "trees.svg").exists()


def test_the_version_is_the_packages(testbed: Callable[..., Called]) -> None:
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    called = testbed("--version")
    assert (called.code, called.out) == (0, f"testbed {version[1]}\n")
