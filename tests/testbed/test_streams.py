"""Commands whose reader has left, and those whose output cannot be written. Each in a process of its own, for the last
write is often at Python's end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import exits

from .sides import write_side

FULL = "/dev/full"
PRINTS = ["topo", "star(hosts=3)", "--json"]
WRONG = ["topo", "star(hosts=x)"]


def call(
    words: list[str], out: int, err: int = subprocess.PIPE, cwd: Path | None = None, unbuffered: bool = False
) -> tuple[int, str]:
    """The exit code, and what came on standard error if that is a pipe."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    environment |= {"PYTHONUNBUFFERED": "1"} if unbuffered else {}
    done = subprocess.run(
        [sys.executable, "-m", "testbed", *words], stdout=out, stderr=err, cwd=cwd, env=environment, check=False
    )
    return done.returncode, (done.stderr or b"").decode()


@pytest.fixture
def left() -> Iterator[int]:
    """A pipe whose reader has left."""
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


@pytest.mark.parametrize("unbuffered", [True, False], ids=["at once", "at the end"])
@pytest.mark.parametrize(
    ("words", "code"), [(["schemes"], exits.OK), (["--help"], exits.OK), (WRONG, exits.BAD_SPEC_OR_USAGE)]
)
def test_a_reader_that_leaves_changes_nothing(words: list[str], code: int, unbuffered: bool, left: int) -> None:
    """Typer's own code for it is 1."""
    ended, told = call(words, left, unbuffered=unbuffered)
    assert ended == code
    assert (told == "") == (code == exits.OK)
    assert call(words, left, left)[0] == code


def test_a_regression_is_one_though_nobody_reads_it(left: int, tmp_path: Path) -> None:
    write_side(tmp_path / "base.json", 0.2)
    write_side(tmp_path / "slow.json", 0.25)
    for unbuffered in (True, False):
        assert call(["compare", "base.json", "slow.json"], left, cwd=tmp_path, unbuffered=unbuffered) == (
            exits.REGRESSION,
            "",
        )


@pytest.mark.parametrize("unbuffered", [True, False], ids=["at once", "at the end"])
@pytest.mark.parametrize("words", [PRINTS, ["--help"]])
def test_standard_output_that_cannot_be_written(words: list[str], unbuffered: bool) -> None:
    with Path(FULL).open("wb") as full:
        assert call(words, full.fileno(), unbuffered=unbuffered) == (
            exits.BAD_SPEC_OR_USAGE,
            "error: standard output: cannot be written: no space left on device\n"
            "  fix: send it to another place, or free some space there\n",
        )


def test_standard_error_that_cannot_be_written() -> None:
    with Path(FULL).open("wb") as full:
        assert call(WRONG, subprocess.DEVNULL, full.fileno())[0] == exits.BAD_SPEC_OR_USAGE
        assert call(PRINTS, full.fileno(), full.fileno())[0] == exits.BAD_SPEC_OR_USAGE


def test_standard_output_that_is_closed() -> None:
    script = f"exec {sys.executable} -m testbed schemes >&-"
    done = subprocess.run(["sh", "-c", script], cwd=Path(__file__).parents[2], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (exits.OK, b"")
