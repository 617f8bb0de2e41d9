"""A worker, a server or an aggregator that dies or stands still: the trial fails in time and names it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.execution import supervise
from testbed.execution.execute import Tick
from testbed.execution.so_far import SoFar

from ..bench import Bench
from ..execution.test_libraries import needs_open_mpi

pytestmark = pytest.mark.lab

TIMEOUT_S, START_TIMEOUT_S = 2, 8
SPEC = f"""\
name: dead
links: {{rate: 40 Gbit/s}}
workload: {{kind: profile, model: resnet50, batch: 32, iterations: 400, scale: 200, compute: {{pace: {{32: 0.05 s}}}}}}
arms: [{{topology: TOPOLOGY, scheme: SCHEME}}]
timeout: {TIMEOUT_S} s
start_timeout: {START_TIMEOUT_S} s
"""
WHO = {
    "a worker of a ring": ("star(hosts=4)", "ring", "h2"),
    "the only server": ("star(hosts=4)", "ps(colocated=false)", "h3"),
    "an aggregator": ("star(hosts=3,ina=all)", "switchml", "s0"),
}
BUSY_S = 15
"""What a busy machine may add to each limit. Without the limit a trial would go on for 20 s, or for ever."""
KILLED_S = supervise.SETTLE_S + BUSY_S
"""How soon the death of a process must be told."""
STOPPED_S = TIMEOUT_S + supervise.GRACE_S + supervise.SETTLE_S + BUSY_S

Strike = Callable[[str, str, str, int], tuple[str, float]]


@pytest.fixture
def strike(bench: Bench, tmp_path: Path) -> Strike:
    """Runs a trial and, when it is at work, sends a node's process a signal: the first line of what the trial failed
    with, and how long after the signal it had (s)."""

    def one(topology: str, scheme: str, victim: str, number: int) -> tuple[str, float]:
        struck_s: list[float] = []

        def tick(iterations: int, _: SoFar) -> None:
            if iterations > 2 and not struck_s:
                bench.lab.signal(victim, number)
                struck_s.append(time.monotonic())

        return failed(bench, topology, scheme, tmp_path, tick), time.monotonic() - struck_s[0]

    return one


def failed(bench: Bench, topology: str, scheme: str, folder: Path, tick: Tick = lambda *_: None) -> str:
    """The first line of what the trial failed with."""
    (outcome,) = bench.run(SPEC.replace("TOPOLOGY", f'"{topology}"').replace("SCHEME", scheme), folder, tick)
    assert outcome.record["status"] == "failed"
    return str(outcome.record["error"]).splitlines()[0]


@pytest.mark.parametrize("who", WHO)
def test_one_that_is_killed(who: str, strike: Strike) -> None:
    topology, scheme, victim = WHO[who]
    error, took_s = strike(topology, scheme, victim, signal.SIGKILL)
    role = "worker" if who.startswith("a worker") else "aggregator"
    assert error.startswith(f"the {role} on {victim} was killed by SIGKILL")
    assert took_s < KILLED_S


@pytest.mark.parametrize(
    "who",
    [
        pytest.param("a worker of a ring", marks=pytest.mark.rehearse),
        "the only server",
        pytest.param("an aggregator", marks=pytest.mark.rehearse),
    ],
)
def test_one_that_stands_still(who: str, strike: Strike) -> None:
    topology, scheme, victim = WHO[who]
    error, took_s = strike(topology, scheme, victim, signal.SIGSTOP)
    assert error.endswith(f"still running a moment later: {victim}; stopped: {victim}")
    assert took_s < STOPPED_S


OPEN_MPI = pytest.param("openmpi", marks=needs_open_mpi)


@pytest.mark.parametrize("scheme", ["gloo", OPEN_MPI])
def test_one_that_stands_still_in_a_library(scheme: str, strike: Strike) -> None:
    """Gloo's ranks give up after the timeout, and MPI's never, so that the harness must."""
    error, took_s = strike("star(hosts=3)", scheme, "h1", signal.SIGSTOP)
    assert "h1" in error.split(": ")[-1]
    assert took_s < STOPPED_S


def test_until_all_have_met_the_limit_is_another(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of three workers stands still as soon as it is there, so nobody gets to the first line of a worker."""
    bench.strike_first("h1", signal.SIGSTOP, monkeypatch)
    began_s = time.monotonic()
    error = failed(bench, "star(hosts=3)", "ring", tmp_path)
    took_s = time.monotonic() - began_s
    assert TIMEOUT_S + supervise.GRACE_S < took_s < START_TIMEOUT_S + supervise.GRACE_S + supervise.SETTLE_S + BUSY_S
    assert "still running a moment later: h" in error or "stopped: h" in error


@pytest.mark.parametrize(
    "scheme", [*(pytest.param(one, marks=pytest.mark.rehearse) for one in ("gloo", "ring")), OPEN_MPI]
)
def test_until_all_have_met_one_may_be_later_than_the_timeout(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    bench.strike_first("h1", signal.SIGSTOP, monkeypatch, 2 * TIMEOUT_S)
    spec = (
        SPEC.replace("TOPOLOGY", "star(hosts=3)").replace("SCHEME", scheme).replace("iterations: 400", "iterations: 4")
    )
    (outcome,) = bench.run(spec.replace(f"start_timeout: {START_TIMEOUT_S} s", "start_timeout: 30 s"), tmp_path)
    assert outcome.record["status"] == "done", outcome.record["error"]
