"""A run hit at a random moment; ``benchmarks/crash.py`` hits 200, and says what must hold afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
LITTER = """
import os, subprocess
from pathlib import Path
import leftovers
from testbed.lab.netns.kernel_interface import kernel

before = leftovers.state()
assert leftovers.wait_until_alone(1) == [] and leftovers.wait_until_one_namespace(1)
sleeper = subprocess.Popen(["sleep", "1000"])
home = os.open("/proc/self/ns/net", os.O_RDONLY)
kernel.unshare(kernel.CLONE_NEWNET)
held = os.open("/proc/self/ns/net", os.O_RDONLY)
kernel.setns(home, kernel.CLONE_NEWNET)
Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
kernel.mount("none", "/mnt", "tmpfs", 0)
print(leftovers.wait_until_alone(0.2), leftovers.wait_until_one_namespace(0.2))
print([line.partition(":")[0] for line in leftovers.differences(before, leftovers.state())])
sleeper.kill()
"""


@pytest.mark.rehearse
def test_a_run_that_is_hit(tmp_path: Path) -> None:
    """A process of it is killed; Ctrl-C and full disks are in ``test_run.py``, terminals in ``test_terminal.py``."""
    words = ["--runs", "1", "--seed", "7", "--only", "kill", "--whole", "12"]
    command = [sys.executable, str(BENCHMARKS / "crash.py"), *words]
    done = subprocess.run(
        command, env=environment(TMPDIR=str(tmp_path)), capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n0 of 1 runs were not as they should be\nthe machine is as before\n" in done.stdout


def test_what_is_left_would_be_seen() -> None:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from leftovers import PRIVATE
    finally:
        sys.path.remove(str(BENCHMARKS))
    done = subprocess.run(
        ["unshare", *PRIVATE, sys.executable, "-c", LITTER],
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    processes, settings = done.stdout.splitlines()
    assert processes == "['sleep 1000 (S)'] False"
    assert settings.startswith("['/proc/sys/net/ipv4/")
    assert settings.endswith("'mounts']")
    assert "'/proc/sys/net/ipv4/ip_forward'" in settings


def environment(**more: str) -> dict[str, str]:
    paths = [str(BENCHMARKS.parent), str(BENCHMARKS)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}
