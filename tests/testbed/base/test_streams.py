"""Commands whose reader has left, and those whose output cannot be written. Each in a process of its own, for the last
write is often at Python's end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import cli
from testbed.base import exits, streams
from testbed.interactive.reach import NAME_VARIABLE

from ..sides import write_side

FULL = "/dev/full"
PRINTS = ["topo", "star(hosts=3)", "--json"]
WRONG = ["topo", "star(hosts=x)"]


def call(
    words: list[str], out: int, err: int = subprocess.PIPE, cwd: Path | None = None, unbuffered: bool = False
) -> tuple[int, str]:
    """The exit code, and what came on standard error if that is a pipe."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
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


def shell(script: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of the shell in which ``$testbed`` is the command."""
    return subprocess.run(
        ["bash", "-c", script],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"testbed": f"{sys.executable} -m testbed"} | environment,
        capture_output=True,
        check=False,
    )


def test_standard_output_that_is_closed() -> None:
    done = shell("exec $testbed schemes >&-")
    assert (done.returncode, done.stderr) == (exits.OK, b"")


def test_nothing_takes_the_place_of_streams_that_are_closed(tmp_path: Path) -> None:
    """The next file that is opened would have their number. An error stays away from standard output, too."""
    done = shell(f"exec $testbed {' '.join(map(repr, WRONG))} 2>&-")
    assert (done.returncode, done.stdout) == (exits.BAD_SPEC_OR_USAGE, b"")
    drawn = tmp_path / "star.svg"
    done = shell(f"exec $testbed topo 'star(hosts=3)' --draw {drawn} <&- >&- 2>&-")
    assert done.returncode == exits.OK
    assert drawn.read_text().startswith("<svg")
    assert drawn.read_text().rstrip().endswith("</svg>")


@pytest.mark.parametrize(
    "environment", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0", "LC_ALL": "C"}]
)
def test_standard_output_that_is_ascii(environment: dict[str, str], tmp_path: Path) -> None:
    """What it lacks is escaped, in what is printed and in errors."""
    (tmp_path / "größe.yaml").write_text("name: [")
    done = shell(f"exec $testbed plan {tmp_path}/größe.yaml", **environment)
    assert done.returncode == exits.BAD_SPEC_OR_USAGE
    assert done.stderr.startswith(b"error: ")
    assert b"Traceback" not in done.stderr


def test_characters_that_standard_output_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as out:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", out)
        stdout, _ = streams.guard()
        print("2 \N{RIGHTWARDS ARROW} 3", file=stdout, flush=True)
    assert (tmp_path / "out").read_bytes() == b"2 \\u2192 3\n"


@pytest.mark.parametrize("words", [["plan", "s.yaml", "--out", "NAME"], ["report", "NAME"], ["exec", "NAME", "ls"]])
def test_words_that_are_no_text_are_refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["testbed", *(os.fsdecode(b"h\xff") if one == "NAME" else one for one in words)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == exits.BAD_SPEC_OR_USAGE
    assert capsys.readouterr().err == (
        "error: the command line has b'h\\xff', which is not UTF-8\n  fix: give another name, or rename the file\n"
    )


def test_words_for_a_command_may_be_anything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here nobody holds a lab in which it could run."""
    monkeypatch.setenv(NAME_VARIABLE, f"nobody-{os.getpid()}")
    monkeypatch.setattr(sys, "argv", ["testbed", "exec", "h0", "printf", os.fsdecode(b"\xff")])
    with pytest.raises(SystemExit):
        cli.main()
    assert "no lab is up" in capsys.readouterr().err
