"""What is made of what was seen of processes from outside."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from testbed.base.check import ALL, WHOLE_JOB
from testbed.fidelity import run_queue, timers
from testbed.fidelity.outside import Outside
from testbed.machine.processes import ProcessLog, Standing
from testbed.workloads.kinds.process import process

WINDOWS = [(at + 0.4, at + 0.5) for at in range(10)]
"""Ten iterations of a second, whose gradients are on the wire for 0.1 s."""


def seen(looks_per_s: float = 40, until_s: float = 10.0, **stops: list[tuple[float, float]]) -> ProcessLog:
    """Processes that were stopped from and to, and waited for a core for as long as well."""
    log = ProcessLog()
    for at_s in np.arange(0, until_s + 1e-9, 1 / looks_per_s):
        log.look(float(at_s))
        for name, each in stops.items():
            lost_s = sum(max(0.0, min(at_s, end) - begin) for begin, end in each)
            log.of.setdefault(name, Standing(counts_waits=True)).add(float(at_s), lost_s, 0.0, lost_s)
    return log


def outside(log: ProcessLog, *names: str) -> Outside:
    return Outside(log, (0.0, 10.0), names)


def every(length_s: float, period_s: float, until_s: float = 10.0) -> list[tuple[float, float]]:
    return [(at, at + length_s) for at in np.arange(0, until_s, period_s)]


@pytest.mark.parametrize(
    ("stops", "share"),
    [
        (every(0.05, 0.1), 0.5),
        (every(0.029, 0.07), 0.414),
        (every(0.01, 0.1), 0.1),
        ([], 0.0),
        ([(3.45, 5.45)], 0.0),
    ],
    ids=["half", "29 of 70 ms", "a tenth", "never", "once for 2 s"],
)
def test_gst_is_threatened_by_stops_that_its_median_has_in_it(stops: list[tuple[float, float]], share: float) -> None:
    windows = sorted([*WINDOWS[:3], (3.4, 5.5), *WINDOWS[6:]])  # one may have waited for the process
    found = outside(seen(looks_per_s=200, a=stops, b=[]), "a", "b").halted(windows)
    assert found["a"] == pytest.approx(share, abs=0.06)
    assert found["b"] == 0
    assert timers.halts(found).ok is (share < timers.HALTED)


def test_few_looks_within_synchronisations_are_helped_by_those_between() -> None:
    """A process that is stopped for a tenth of each iteration, never at a moment at which somebody looked within a
    synchronisation."""
    stops = [(at, at + 0.1) for at in range(10)]
    log = seen(looks_per_s=20, a=stops)
    assert outside(log, "a").halted(WINDOWS)["a"] == pytest.approx(0.1, abs=0.03)
    plenty = seen(looks_per_s=400, a=stops)
    assert outside(plenty, "a").halted(WINDOWS)["a"] == 0, "with enough looks, synchronisations alone count"


SHORT = [(at + 0.15, at + 0.2) for at in np.arange(0, 8, 0.2)]
"""Forty iterations of 0.2 s."""


def looked_at(looks_per_s: float, stops: list[tuple[float, float]], seed: int) -> ProcessLog:
    """A process whose state somebody looked at, at random moments: if it was stopped, it was since the look before."""
    random, log, at_s, stopped_s = np.random.default_rng(seed), ProcessLog(), 0.0, 0.0
    standing = log.of.setdefault("a", Standing(counts_waits=True))
    while at_s < 8:
        gap_s = random.exponential(1 / looks_per_s)
        at_s += gap_s
        stopped_s += gap_s * any(begin <= at_s < end for begin, end in stops)
        log.look(at_s)
        standing.add(at_s, stopped_s, 0.0, 0.0)
    return log


def test_few_looks_in_each_iteration_show_a_stop_of_a_tenth_of_the_time() -> None:
    """On a busy machine somebody looks five times in an iteration, and in more than half of them sees no stop."""
    logs = [looked_at(25, every(0.01, 0.1, 8.0), seed) for seed in range(200)]
    missed = sum(timers.halts(Outside(log, (0.0, 8.0), ["a"]).halted(SHORT)).ok for log in logs)
    assert missed <= 10, "20 where each iteration is judged by itself"
    once = [looked_at(25, [(3.35, 5.35)], seed) for seed in range(50)]
    assert all(timers.halts(Outside(log, (0.0, 8.0), ["a"]).halted([*SHORT[:16], *SHORT[26:]])).ok for log in once)


@pytest.mark.parametrize(("stops", "ok"), [(every(0.05, 0.1), False), (every(0.01, 0.1), False), ([], True)])
def test_jct_is_threatened_by_every_stop(stops: list[tuple[float, float]], ok: bool) -> None:
    check = timers.stalls(outside(seen(a=stops, b=[]), "a", "b").stalled_s(), 10.0)
    assert check.ok is ok
    assert check.detail.startswith("a stood still") or ok
    assert set(check.threatens) == set(WHOLE_JOB)
    assert not timers.stalls(outside(seen(a=[(3.0, 5.0)]), "a").stalled_s(), 10.0).ok


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (seen(a=[]), "nobody saw b run"),
        (ProcessLog(), "nobody saw a run, nor 1 others"),
        (seen(until_s=9.0, a=[], b=[]), "nobody looked for 1.00 s, 10.0% of the job"),
        (seen(a=[], b=[]), ""),
    ],
)
def test_what_nobody_saw_is_not_watched(log: ProcessLog, why: str) -> None:
    one = outside(log, "a", "b")
    assert one.missing == why
    check = run_queue.from_outside(one, WINDOWS, (0.0, 10.0))
    assert check.watched is not bool(why)
    assert (check.detail == why) or not why


def test_a_script_is_judged_by_its_waits_while_synchronising_and_a_command_by_all_of_them() -> None:
    waits = [(at + 0.4, at + 0.45) for at in range(10)]
    one = outside(seen(looks_per_s=100, a=waits), "a")
    script = run_queue.from_outside(one, WINDOWS, (0.0, 10.0))
    assert (script.ok, script.value, set(script.threatens)) == (False, pytest.approx(0.5, abs=0.05), set(ALL))
    assert script.detail == "a waited for a core during 50% of synchronisations, the most of all"
    command = run_queue.from_outside(one, None, (0.0, 10.0))
    assert (command.ok, command.value, set(command.threatens)) == (True, pytest.approx(0.05), set(WHOLE_JOB))


def test_a_kernel_that_counts_no_waits_is_said() -> None:
    log = seen(a=[])
    log.of["a"].counts_waits = False
    check = run_queue.from_outside(outside(log, "a"), None, (0.0, 10.0))
    assert (check.watched, check.detail) == (False, "this kernel does not count run-queue waits")


def judged(log: ProcessLog, done: list[dict[str, Any]], samples: pd.DataFrame | None = None) -> Mapping[str, Any]:
    """The checks about standing still of a job whose processes are ``a`` and ``b``, by name."""
    nodes = {"a": 0, "b": 1}
    job = SimpleNamespace(processes=nodes, members={name: process(name, at, "worker") for name, at in nodes.items()})
    rest = {"samples": samples, "counted": samples, "windows": WINDOWS, "aggregators": (), "window": (0.0, 10.0)}
    course = SimpleNamespace(is_whole=True)
    found = SimpleNamespace(
        processes=log, job=job, done=done, to_stand_still=frozenset(), course=course, every=samples, **rest
    )
    return {check.name: check for check in timers.checks(found)}  # type: ignore[arg-type]


def line(name: str, stalled_s: float | None) -> dict[str, Any]:
    return {"name": name, "late_s": None, "stalled_s": stalled_s, "halted_s": None}


def test_what_a_process_says_of_itself_is_confirmed_from_outside() -> None:
    """Its own report is not trusted, where more was seen."""
    said = [line("a", 0.0), line("b", 0.1)]
    assert judged(seen(a=[], b=[]), said)["stalls"].value == pytest.approx(0.01)
    lied = judged(seen(a=every(0.05, 0.1), b=[]), said)["stalls"]
    assert (lied.ok, lied.value) == (False, pytest.approx(0.5, abs=0.02))
    assert lied.detail.startswith("a stood still")


def test_processes_that_say_nothing_are_judged_by_what_was_seen_and_unwatched_where_nothing_was() -> None:
    assert judged(seen(a=[], b=[]), [])["stalls"].ok
    assert not judged(seen(a=[], b=[(1.0, 3.0)]), [])["stalls"].ok
    blind = judged(ProcessLog(), [line("a", 0.0), line("b", None)])["stalls"]
    assert (blind.watched, blind.detail) == (False, f"{timers.UNSEEN}: nobody saw a run, nor 1 others")
    inside = judged(ProcessLog(), [line("a", 0.0), line("b", 0.0)])["stalls"]
    assert inside.watched, "all said it themselves"


def test_gst_without_a_word_from_inside_is_judged_from_outside() -> None:
    samples = pd.DataFrame({"iteration": [0], "node": [0], "ready_s": [0.4], "sum_s": [0.5]})
    found = judged(seen(looks_per_s=200, a=every(0.05, 0.1), b=[]), [], samples)["stalls while synchronising"]
    assert (found.ok, found.detail.startswith("a was stopped for")) == (False, True)
    assert not judged(ProcessLog(), [], samples)["stalls while synchronising"].watched
