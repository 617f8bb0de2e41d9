"""A lab that Python holds."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import testbed
from testbed.base.errors import LabError, UsageError
from tests.patience import PATIENCE_S, until

from ..conftest import SPEC

pytestmark = pytest.mark.lab


@pytest.fixture
def lab(spec_file: Path) -> Iterator[testbed.Lab]:
    with testbed.up(spec_file, arm=1) as one:
        yield one


@pytest.mark.usefixtures("interruptible")
def test_commands_are_run_and_interrupted_and_the_lab_stays_until_it_is_closed(lab: testbed.Lab) -> None:
    assert lab.nodes == ("h0", "h1", "h2", "s0")
    done = lab.exec("h0", ["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert lab.exec("h0", "cat").stdout == ""
    assert "'a b'" in lab.exec("h0", "ls 'a b'").stderr
    with pytest.raises(UsageError, match="has no node 'h9'"):
        lab.exec("h9", "true")
    with pytest.raises(UsageError, match="No closing quotation"):
        lab.exec("h0", "echo 'a")
    press = threading.Timer(1.0, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
    press.start()
    with pytest.raises(KeyboardInterrupt):
        lab.exec("h0", "sleep 4322")
    press.join()
    until(lambda: "4322" not in lab.exec("h0", "pgrep -fa ^sleep").stdout)
    lab.close()
    assert repr(lab) == "<Lab star(hosts=3): ended>"
    with pytest.raises(LabError, match="has ended"):
        lab.exec("h0", "true")


def test_a_lab_goes_with_whoever_holds_it(spec_file: Path) -> None:
    script = f"""
import os, testbed
lab = testbed.up({str(spec_file)!r})
print(lab._holder.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == -9
    holder = Path("/proc", done.stdout.strip(), "cmdline")
    until(lambda: not holder.exists() or not holder.read_bytes())


def test_a_mistake_is_that_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    with pytest.raises(UsageError, match="there is no such arm"):
        testbed.up(tmp_path / "spec.yaml", arm="no")
