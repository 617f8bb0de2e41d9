"""Lateness of the processes' sleeps: clocks, schedulers, and processes that somebody stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from testbed.analysis import metrics
from testbed.base.check import WHOLE_JOB, About, Check, not_watched
from testbed.fidelity.outside import Outside, worst
from testbed.fidelity.seen import Seen

ABOUT = About(
    "timers",
    sees="a clock, a scheduler or a timer slack that ends sleeps late: a thread of each process samples 50 times a "
    "second, and the median counts",
    misses="single late wake-ups, which good trials have, too (see stalls)",
    machine=True,
)
STALLS = About(
    "stalls",
    sees="a process that was stopped, or had no core, at any time of the job. From outside, of every process and of "
    "all that it started: its state (stopped by a signal or a debugger, or frozen) at random moments, and waits for a "
    "core of more than 50 ms at once. From inside, where it is ours: by how much its sleeps of 20 ms end more than "
    "50 ms late. The worst process counts",
    misses="what stopped the process; a thread that a debugger stops while the process's first thread runs",
    threatens=WHOLE_JOB,
    machine=True,
    needed=True,
)
HALTS = About(
    "stalls while synchronising",
    sees="a process that stood still while gradients were on the wire. From outside, of every process: at which share "
    "of random moments it was stopped. From inside, where it is ours: by how much its sleeps of 20 ms end more than 3 "
    "ms late for another reason than a wait for a core (see run queue). The worst process counts",
    misses="what stopped the process; stops that make the longer half of the synchronisations longer, and leave the "
    "median as it is (see stalls)",
    machine=True,
    needed=True,
)
UNSEEN = "nobody saw whether processes stood still"
LATE_S = 0.002
"""Most by which the median of a process's sleeps overruns while it trains. It was 0.09 to 0.14 ms in trials whose cores
were free, up to 0.4 ms with run-queue waits of a third, 0.2 to 3 ms where two trials fought for the cores, 30 ms with a
timer slack of 30 ms; the largest was 4 to 32 ms in any of them."""
WATCHED = 0.1
"""Least share of the job for which a process must have been watched, so that the median of its sleeps says something. A
box's manager that only gives access is watched for a moment, in which it sleeps once."""
STALLED = 0.03
"""Most of the time that a number covers for which a process stood still: what a certified number may be too long."""
HALTED = 0.05
"""Most of a synchronisation for which a process stood still, brief stops included, waits for a core not. It was 0 in
20 good trials of nine workers on two cores (up to 6 % with waits for a core), and 14 % for a worker that was stopped
for 29 ms in every 70 ms."""


def checks(seen: Seen) -> Iterator[Check]:
    yield judge(lateness(seen.done, seen.window[1] - seen.window[0]))
    outside = Outside.of(seen)
    yield _stalls(seen, outside)
    if seen.samples is not None:
        yield _halts(seen, outside)


def _stalls(seen: Seen, outside: Outside) -> Check:
    """Judge for how long processes stood still. Those that say by how much their sleeps ended late are believed if that
    is more than what was seen of them from outside, for they see more: a process that had no core."""
    inside = {line["name"]: line["stalled_s"] for line in seen.done if line.get("stalled_s") is not None}
    window_s = seen.window[1] - seen.window[0]
    watched_s = max((line.get("watched_s") or 0.0 for line in seen.done), default=0.0)
    of_window = window_s / max(watched_s, window_s)  # what processes say of themselves covers a script's set-up, too
    inside = {name: value * of_window for name, value in inside.items() if name not in seen.to_stand_still}
    stopped, stalled = outside.stopped_s(), outside.stalled_s()
    found = {name: max(value, stopped.get(name, 0.0)) for name, value in inside.items()}
    found |= {name: value for name, value in stalled.items() if name not in inside}
    known = inside.keys() >= {name for name in seen.job.processes if name not in seen.to_stand_still}
    if outside.missing and not (known or (inside and not seen.course.is_whole)):
        return not_watched(STALLS, STALLED, "of JCT", f"{UNSEEN}: {outside.missing}")
    return stalls(found, window_s)


def _halts(seen: Seen, outside: Outside) -> Check:
    """Judge halts by what workers say of how long they stood still in each synchronisation; or by what was seen from
    outside."""
    rows = seen.counted
    is_told = "sync_halted_s" in rows and rows["sync_halted_s"].notna().all() and not rows.empty
    others = {} if outside.missing else outside.halted(seen.windows)
    if not is_told:
        if outside.missing:
            return not_watched(HALTS, HALTED, "of synchronising", f"{UNSEEN}: {outside.missing}")
        return halts(others)
    names = list(seen.job.processes)
    still = {seen.job.processes[name] for name in names if name in seen.to_stand_still}
    rows = rows[~rows["node"].isin(still)]
    told = [line for line in seen.done if line["name"] in seen.aggregators and line["name"] not in seen.to_stand_still]
    found = stalls_of_synchronisation(rows, _of_others(told, seen)) if not rows.empty else halts(others)
    seen_outside = halts(others)
    return seen_outside if not seen_outside.ok and found.ok else found


def lateness(done: Iterable[Mapping[str, Any]], window_s: float) -> dict[str, float | None]:
    """Return the median lateness (s) by name, of processes that were watched for :data:`WATCHED` of the job, or of
    which nobody knows for how long."""
    return {
        line["name"]: line["late_s"]
        for line in done
        if line.get("watched_s") is None or line["watched_s"] >= WATCHED * window_s
    }


def judge(late_s: Mapping[str, float | None]) -> Check:
    """Judge the process whose sleeps come back latest; ``late_s`` is the median lateness by name."""
    known = {name: value for name, value in late_s.items() if value is not None}
    if not known:
        return not_watched(ABOUT, 1e3 * LATE_S, "ms late", "no process sampled its sleeps, or it was too short")
    name = max(known, key=known.__getitem__)
    detail = f"the sleeps of {name} came back {1e3 * known[name]:.2f} ms late in the median"
    return Check(ABOUT.name, 1e3 * known[name], 1e3 * LATE_S, "ms late", known[name] <= LATE_S, detail, machine=True)


def halts(shares: Mapping[str, float]) -> Check:
    """Judge the process that was seen to stand still for the largest share of synchronisations."""
    name, share = worst(shares) if shares else ("no process", 0.0)
    detail = f"{name} was stopped for {share:.1%} of the time while gradients were on the wire, the most of all"
    return Check(HALTS.name, share, HALTED, "of synchronising", share <= HALTED, detail, machine=True, needed=True)


def stalls(stalled_s: Mapping[str, float | None], window_s: float) -> Check:
    """Judge the process that stood still for longest; by name, for how long in all, of a trial that took ``window_s``.
    Hosts that were to stand still are not among them."""
    known = {name: value for name, value in stalled_s.items() if value is not None}
    if not known:
        return not_watched(STALLS, STALLED, "of JCT", UNSEEN)
    name = max(known, key=known.__getitem__)
    share = known[name] / window_s
    detail = f"{name} stood still for {known[name]:.2f} s, {share:.1%} of the job, the most of all"
    ok = share <= STALLED
    return Check(STALLS.name, share, STALLED, "of JCT", ok, detail, threatens=WHOLE_JOB, machine=True, needed=True)


def _of_others(lines: Sequence[Mapping[str, Any]], seen: Seen) -> dict[str, float]:
    """Share of the time for which each process without samples stood still. It is not known when. So long stops are
    compared with the time of all synchronisations, and all stops, brief ones included, with the whole job, because
    every process has brief stops at times."""
    sync_s, whole_s = metrics.sync_s(seen.every), seen.window[1] - seen.window[0]
    return {
        line["name"]: max(line["stalled_s"] / sync_s, line["halted_s"] / whole_s)
        for line in lines
        if line["halted_s"] is not None
    }


def stalls_of_synchronisation(samples: pd.DataFrame, others: Mapping[str, float]) -> Check:
    """Judge the share of the time from its gradient to its sum for which the worst worker stood still, median over
    iterations; or that of one of ``others``, by name."""
    shares = samples["sync_halted_s"] / (samples["sum_s"] - samples["ready_s"])
    share = float(shares.groupby(samples["iteration"]).max().median())
    detail = f"the worst worker stood still for {share:.1%} of its time from gradient to sum"
    for name, other in others.items():
        if other > share:
            share, detail = other, f"{name} (not a worker) stood still for {other:.1%} of the time"
    return Check(HALTS.name, share, HALTED, "of synchronising", share <= HALTED, detail, machine=True, needed=True)
