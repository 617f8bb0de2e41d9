"""A worker, a server or an aggregator that dies or stands still: the trial fails in time and names it."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from testbed import watch

from .test_libraries import needs_open_mpi
from .test_run import Started, family

pytestmark = pytest.mark.lab

TIMEOUT_S, START_TIMEOUT_S = 2, 8
SPEC = f"""\
name: dead
links: {{rate: 1 Gbit/s}}
workload: {{model: lenet5, dataset: digits, batch: 2, iterations: 400, compute: none}}
arms: [{{topology: TOPOLOGY, scheme: SCHEME}}]
timeout: {TIMEOUT_S} s
start_timeout: {START_TIMEOUT_S} s
"""
WHO = {
    "a worker of a ring": ("star(hosts=4)", "ring", "h2"),
    "a worker of a colocated PS": ("star(hosts=4)", "ps", "h1"),
    "the only server": ("star(hosts=4)", "ps(colocated=false)", "h3"),
    "an aggregator": ("star(hosts=3,ina=all)", "switchml", "s0"),
}
KILLED_S = watch.SETTLE_S + 3
"""How soon the death of a process must be told; a busy machine's second included."""
STOPPED_S = TIMEOUT_S + watch.GRACE_S + watch.SETTLE_S + 3


def start(folder: Path, topology: str, scheme: str) -> tuple[Started, str]:
    """A run of one trial, and the trial's id."""
    (folder / "spec.yaml").write_text(SPEC.replace("TOPOLOGY", f'"{topology}"').replace("SCHEME", scheme))
    run = Started(folder, "spec.yaml", "--out", "out")
    run.until(lambda: any((folder / "out").glob("work/*/h0.jsonl")))
    (work,) = (folder / "out" / "work").iterdir()
    return run, work.name


def failed(run: Started, began_s: float, limit_s: float) -> str:
    """The first line of what the trial failed with, which must be known within ``limit_s``."""
    records = run.out / "trials"
    while not (found := list(records.glob("*.json"))):
        assert time.monotonic() - began_s < limit_s, "the trial still runs"
        time.sleep(0.02)
    code, _, _ = run.end()
    assert code == 1
    record = json.loads(found[0].read_text())
    assert record["status"] == "failed"
    return str(record["error"]).splitlines()[0]


@pytest.mark.parametrize("who", WHO)
def test_one_that_is_killed(who: str, tmp_path: Path) -> None:
    topology, scheme, victim = WHO[who]
    run, trial = start(tmp_path, topology, scheme)
    run.until(lambda: run.trains(trial))
    os.kill(run.worker(trial, victim), signal.SIGKILL)
    error = failed(run, time.monotonic(), KILLED_S)
    assert error.startswith(f"the worker on {victim} was killed by SIGKILL")


@pytest.mark.parametrize("who", WHO)
def test_one_that_stands_still(who: str, tmp_path: Path) -> None:
    topology, scheme, victim = WHO[who]
    run, trial = start(tmp_path, topology, scheme)
    run.until(lambda: run.trains(trial))
    os.kill(run.worker(trial, victim), signal.SIGSTOP)
    error = failed(run, time.monotonic(), STOPPED_S)
    assert error.endswith(f"still running a moment later: {victim}")


@pytest.mark.parametrize("scheme", ["gloo", pytest.param("openmpi", marks=needs_open_mpi)])
def test_one_that_stands_still_in_a_library(scheme: str, tmp_path: Path) -> None:
    """Gloo's ranks give up after the timeout, and MPI's never, so that the harness must."""
    run, trial = start(tmp_path, "star(hosts=3)", scheme)
    run.until(lambda: run.trains(trial))
    os.kill(run.worker(trial, "h1"), signal.SIGSTOP)
    assert "h1" in failed(run, time.monotonic(), STOPPED_S + 3).split(": ")[-1]


def test_until_all_have_met_the_limit_is_another(tmp_path: Path) -> None:
    """One of three workers stands still as soon as it is there, so nobody gets to the first line of a worker."""
    (tmp_path / "spec.yaml").write_text(SPEC.replace("TOPOLOGY", '"star(hosts=3)"').replace("SCHEME", "ring"))
    run = Started(tmp_path, "spec.yaml", "--out", "out")
    stopped: list[int] = []

    def a_worker() -> bool:
        """Only the trial's workers write into their nodes' logs; who looks at the idle network before does not."""
        with suppress(FileNotFoundError, ProcessLookupError):  # one that has just ended
            own = [pid for pid in family(run.process.pid) if Path(f"/proc/{pid}/fd/1").readlink().name == "h1.log"]
            stopped.extend(own)
        return bool(stopped)

    run.until(a_worker)
    os.kill(stopped[0], signal.SIGSTOP)
    began_s = time.monotonic()
    error = failed(run, began_s, START_TIMEOUT_S + watch.GRACE_S + watch.SETTLE_S + 15)
    assert time.monotonic() - began_s > TIMEOUT_S + watch.GRACE_S
    assert "still running a moment later: h" in error or "stopped: h" in error
