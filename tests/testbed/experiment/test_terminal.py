"""A run on a terminal that closes."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from testbed.base import exits
from tests.patience import until

from ..conftest import Called
from .test_run import LONG, PATIENCE_S, all_gone, family

pytestmark = pytest.mark.lab


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (["env", "--default-signal=HUP"], exits.INTERRUPTED),
        pytest.param(["sh", "-c", 'trap "" HUP; exec "$@"', "sh"], exits.OK, marks=pytest.mark.rehearse),
    ],
    ids=["as it is", "with SIGHUP ignored"],
)
def test_a_terminal_that_closes_ends_a_run_unless_that_ignores_it(
    first: list[str], code: int, tmp_path: Path, testbed: Callable[..., Called]
) -> None:
    """And what it would have written there is nowhere, which is no failure. Nothing is left, and it goes on."""
    (tmp_path / "spec.yaml").write_text(LONG)
    ours, its = os.openpty()
    os.set_blocking(ours, False)
    process = subprocess.Popen(
        [*first, sys.executable, "-m", "testbed", "run", "spec.yaml", "--out", "out"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3]), "TERM": "xterm"},
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # then it is told when the terminal closes
    )
    os.close(its)
    shown = bytearray()

    def at_work() -> bool:
        with suppress(BlockingIOError):
            shown.extend(os.read(ours, 1 << 16))
        assert process.poll() is None, shown.decode()
        return any((tmp_path / "out/work").glob("*/h0/samples.jsonl"))

    try:
        until(at_work, PATIENCE_S, 0.05)
        others = list(family(process.pid))
        os.close(ours)
        assert process.wait(PATIENCE_S) == code
    finally:
        process.kill()
        process.wait()
    records = list((tmp_path / "out/trials").glob("*.json"))
    assert (len(records) == 2, (tmp_path / "out/report.html").exists()) == (code == exits.OK,) * 2
    until(lambda: all_gone(others))
    assert not (tmp_path / "out/work").exists()
    if code != exits.OK:
        finished = {path: path.read_bytes() for path in records}
        resumed = testbed("run", "--resume", "out")
        assert (resumed.code, resumed.err) == (0, "")
        assert len(list((tmp_path / "out/trials").glob("*.json"))) == 2
        assert {path: path.read_bytes() for path in records} == finished
