"""Too little memory is an error with a fix, whatever notices it first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed import cli
from testbed.base import address_space, exits


@pytest.mark.parametrize("kib", [30_000, 200_000])
def test_too_little_for_any_command(kib: int) -> None:
    """With 30 MB our imports fail, with 60 MB numpy's, and with 120 MB OpenBLAS ends the process by itself."""
    done = subprocess.run(
        ["bash", "-c", f"ulimit -v {kib}; exec {sys.executable} -m testbed schemes"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (exits.BAD_SPEC_OR_USAGE, "")
    assert done.stderr.startswith(f"error: this process may have {kib // 1024} MiB of address space (ulimit -v)")


def failing_import() -> None:
    """As numpy's, whose own message is a page."""
    try:
        raise ImportError("libopenblas.so: failed to map segment from shared object")
    except ImportError as error:
        raise ImportError("numpy: IMPORTANT: PLEASE READ THIS") from error


def failing_thread() -> None:
    raise RuntimeError("can't start new thread")


def failing_allocation() -> None:
    raise MemoryError


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (failing_import, "libopenblas.so: failed to map segment from shared object"),
        (failing_thread, "can't start new thread"),
        (failing_allocation, "out of memory"),
    ],
)
def test_memory_that_ends_while_a_command_runs(
    fails: Callable[[], None], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["testbed", "schemes"])
    monkeypatch.setattr(cli, "app", lambda **_: fails())
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == exits.BAD_SPEC_OR_USAGE
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("error: the kernel gave this process no more memory")
    assert said[0].endswith(f": {told}")
    assert len(said) == 2


def test_other_errors_are_not_called_so() -> None:
    assert not address_space.is_lack(ImportError("no module named numpy"))
