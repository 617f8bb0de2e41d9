"""Ranks of scripts and commands that somebody stops again and again: no code of ours runs there that could tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..bench import Bench
from ..records import check

pytestmark = pytest.mark.lab

SPEC = """\
name: standing
links: {{rate: 100 Mbit/s}}
workload: {{kind: command, command: "python {script}"}}
arms: [{{topology: star(hosts=2){scheme}}}]
timeout: 30 s
retries: 0
quiet: 0 s
"""
STOP = """
import os, sys, time
def stopped():
    \"\"\"Have a helper stop this process for half of the time, from now on.\"\"\"
    if os.fork() == 0:
        while os.getppid() != 1:
            for name in ("STOP", "CONT"):
                os.kill(os.getppid(), getattr(__import__("signal"), "SIG" + name))
                time.sleep(0.05)
        os._exit(0)
if STOPS and os.environ["RANK"] == "1":
    stopped()
"""
COMMAND = """
until = time.monotonic() + 2.5
while time.monotonic() < until:
    time.sleep(0.005)
"""
SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(16):
    time.sleep(0.05)
    dist.all_reduce(torch.ones(250_000))
dist.destroy_process_group()
"""


def ran(bench: Bench, folder: Path, body: str, *, stops: bool, scheme: str = "") -> dict[str, Any]:
    """The record of a trial of a script, rank 1 of which is stopped for half of the time or is left alone.

    On a busy machine, the harness may look too seldom, and says so: then there is another trial, three at most.
    """
    (folder / "rank.py").write_text(STOP.replace("STOPS", str(stops)) + body)
    for _ in range(3):
        (outcome,) = bench.run(SPEC.format(script="rank.py", scheme=scheme), folder)
        record: dict[str, Any] = outcome.record
        assert record["status"] == "done", record["error"]
        if check(record, "stalls")["watched"]:
            break
    return record


def test_a_command_whose_rank_stands_still_is_invalid_and_the_rank_is_named(bench: Bench, tmp_path: Path) -> None:
    record = ran(bench, tmp_path, COMMAND, stops=True)
    stalls = check(record, "stalls")
    assert (stalls["ok"], stalls["watched"]) == (False, True)
    assert stalls["detail"].startswith("h1 stood still for ")
    assert 0.3 < stalls["value"] < 0.7
    assert "stalls" in record["fidelity"]["numbers"]["jct"]["spoilt_by"]


def test_a_command_that_is_left_alone_is_watched_and_did_not_stand_still(bench: Bench, tmp_path: Path) -> None:
    """That it sleeps nearly all the time is its own will."""
    record = ran(bench, tmp_path, COMMAND, stops=False)
    assert (check(record, "stalls")["watched"], check(record, "run queue")["watched"]) == (True, True)
    assert check(record, "stalls")["value"] < 0.03
    number = record["fidelity"]["numbers"]["jct"]
    assert number["unwatched"] == []
    assert {*number["spoilt_by"]} <= {"CPU headroom", "CPU steal", "run queue"}, "other programs may use the cores"


def test_a_scripts_rank_that_stands_still_spoils_gst_and_jct(bench: Bench, tmp_path: Path) -> None:
    record = ran(bench, tmp_path, SCRIPT, stops=True, scheme=", scheme: ring")
    for name in ("stalls", "stalls while synchronising"):
        found = check(record, name)
        assert (found["ok"], found["watched"]) == (False, True), found
        assert found["detail"].startswith("h1")
    numbers = record["fidelity"]["numbers"]
    assert "stalls while synchronising" in numbers["gst"]["spoilt_by"]
    assert "stalls" in numbers["jct"]["spoilt_by"]
    assert check(record, "run queue")["watched"]
