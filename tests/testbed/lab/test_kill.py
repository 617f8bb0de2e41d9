"""``kill -9`` of any of the lab's processes, at any moment, leaves nothing: the kernel cleans up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import permutations
from pathlib import Path

import pytest

from testbed.base.errors import LabError
from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab, sandbox_process
from testbed.lab.netns.sandbox import Sandbox
from testbed.topologies.build import build
from tests.patience import until

pytestmark = pytest.mark.lab

PRIVATE = [
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]
KILL = Path(__file__).with_name("kill.py")
ROUNDS = 2


@pytest.mark.parametrize("victim", ["caller", "launcher", "sandbox"])
def test_nothing_is_left(victim: str) -> None:
    command = [*PRIVATE, sys.executable, str(KILL), victim, str(ROUNDS), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_left_would_be_seen() -> None:
    command = [*PRIVATE, sys.executable, str(KILL), "leaky-caller", "1", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "left over: ['sleep 1000 ']" in done.stderr


def sandbox_pid(lab: NetnsLab) -> int:
    """The launcher's only child."""
    found = Path(f"/proc/{lab.launcher_pid}/task/{lab.launcher_pid}/children").read_text().split()
    return int(found[0])


def test_the_caller_learns_that_its_lab_is_gone() -> None:
    topology = build("star(hosts=2)", rate_bps=10**8)
    with NetnsLab() as lab:
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        killer = "import os, signal; os.kill(1, signal.SIGKILL)"
        # From inside, the kernel protects a namespace's first process; from outside, nothing does.
        assert lab.execute(0, [sys.executable, "-c", killer], 10).status == 0
        lab.counters()
        os.kill(sandbox_pid(lab), signal.SIGKILL)
        with pytest.raises(LabError, match=r"the lab's process ended \(SIGKILL\)"):
            lab.counters()
    with NetnsLab() as fresh:
        fresh.up(topology, LinkSettings(), [])


def test_a_lab_whose_process_stands_still_is_given_up() -> None:
    topology = build("star(hosts=2)", rate_bps=10**8)
    with NetnsLab() as lab:
        lab.up(topology, LinkSettings(), [])
        sandbox = sandbox_pid(lab)
        os.kill(sandbox, signal.SIGSTOP)
        with pytest.raises(LabError, match=r"did not answer for 0\.5 s, and was ended"):
            lab._sandbox.ask(Sandbox.counters(), timeout_s=0.5)
        with pytest.raises(LabError):
            lab.counters()
    until(lambda: not Path(f"/proc/{sandbox}").exists())


@pytest.mark.parametrize("also_the_sandbox", [False, True])
def test_a_launcher_that_stands_still_does_not_hold_up_the_end(
    also_the_sandbox: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_process, "STOP_TIMEOUT_S", 0.5)
    began_s = time.monotonic()
    with NetnsLab() as lab:
        lab.up(build("star(hosts=2)", rate_bps=10**8), LinkSettings(), [])
        os.kill(lab.launcher_pid, signal.SIGSTOP)
        if also_the_sandbox:
            os.kill(sandbox_pid(lab), signal.SIGKILL)
            with pytest.raises(LabError, match="the lab's process ended"):
                lab.counters()
    assert time.monotonic() - began_s < 10
