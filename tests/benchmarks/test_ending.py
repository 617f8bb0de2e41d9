"""Benchmarks say why they end early."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import ending
from testbed.lab.programs import Completed

ROOT = Path(__file__).parents[2]
WITHOUT_BRCTL = """
import ending
ending.SYSTEM_PATHS = ()
import lab_vs_mininet
lab_vs_mininet.main()
"""


def test_the_benchmark_beside_mininet_names_the_program_that_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("mininet", reason="the Python package mininet is not installed")
    there = ["mnexec", "ip", "tc", "ifconfig", "ethtool"]
    for program in there:
        (tmp_path / program).touch(mode=0o755)
    where = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}"}
    done = subprocess.run([sys.executable, "-c", WITHOUT_BRCTL], capture_output=True, text=True, env=where, check=False)
    assert done.returncode == 1
    assert done.stderr == "this needs brctl, not installed here\n  fix: sudo apt-get install bridge-utils\n"


def test_set_up_installs_what_mininets_bridge_calls() -> None:
    assert "brctl:bridge-utils" in (ROOT / "setup.sh").read_text()


def test_a_failed_trial_is_named() -> None:
    records = [
        {"id": "ring-r0", "status": "done", "error": None},
        {"id": "ring-r1", "status": "failed", "error": "why"},
    ]
    with pytest.raises(SystemExit, match=r"^ring-r1 failed: why$"):
        ending.with_failed(records)
    ending.with_failed(records[:1])


def test_a_command_that_failed_without_a_word_is_named() -> None:
    with pytest.raises(SystemExit, match=r"^tc ended with status 9: it said nothing$"):
        ending.with_command("tc", Completed(9, "", ""))
    ending.with_command("tc", Completed(0, "", "a warning"))
