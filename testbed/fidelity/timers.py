"""How late the processes' sleeps came back: clocks, schedulers, and processes that somebody stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import metrics
from testbed.base.check import WHOLE_JOB, About, Check, not_watched
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
    sees="a process that was stopped, or had no core, at any time of the job: by how much its sleeps of 20 ms end more "
    "than 50 ms late, added up for the worst process",
    misses="stops of up to 70 ms; a part of each longer stop; what stopped the process",
    threatens=WHOLE_JOB,
    machine=True,
    needed=True,
)
HALTS = About(
    "stalls while synchronising",
    sees="a process that stood still while gradients were on the wire: by how much its sleeps of 20 ms end more than "
    "3 ms late for another reason than a wait for a core (see run queue), added up for the worst process",
    misses="stops of up to 23 ms that fall within one sleep; a part of each longer stop; what stopped the process",
    machine=True,
    needed=True,
)
UNSEEN = "nobody saw whether processes stood still"
LATE_S = 0.002
"""Most by which the median of a process's sleeps overruns while it trains. It was 0.09 to 0.14 ms in trials whose cores
were free, up to 0.4 ms with run-queue waits of a third, 0.2 to 3 ms where two trials fought for the cores, 30 ms with a
timer slack of 30 ms; the largest was 4 to 32 ms in any of them."""
STALLED = 0.03
"""Most of the time that a number covers for which a process stood still: what a certified number may be too long."""
HALTED = 0.05
"""Most of a synchronisation for which a process stood still, brief stops included, waits for a core not. It was 0 in
20 good trials of nine workers on two cores (up to 6 % with waits for a core), and 14 % for a worker that was stopped
for 29 ms in every 70 ms."""


def checks(seen: Seen) -> Iterator[Check]:
    if not seen.done:
        return
    yield judge({line["name"]: line["late_s"] for line in seen.done})
    stalled_s = {line["name"]: line.get("stalled_s") for line in seen.done}
    frozen = {host for one in seen.trial.network.perturbations for host in one.stops}
    stalled_s = {name: value for name, value in stalled_s.items() if name not in frozen}
    yield stalls(stalled_s, seen.window[1] - seen.window[0])
    if seen.samples is not None and "sync_halted_s" in seen.every and seen.every["sync_halted_s"].notna().all():
        nodes = [i for i, node in enumerate(seen.trial.topology.nodes) if node.name not in frozen]
        rows = seen.counted[seen.counted["node"].isin(nodes)]
        others = [line for line in seen.done if line["name"] in seen.aggregators and line["name"] not in frozen]
        if not rows.empty:
            yield stalls_of_synchronisation(rows, _of_others(others, seen))


def judge(late_s: Mapping[str, float | None]) -> Check:
    """The process whose sleeps come back latest; by name, the median of by how much."""
    known = {name: value for name, value in late_s.items() if value is not None}
    if not known:
        return not_watched(ABOUT, 1e3 * LATE_S, "ms late", "no process sampled its sleeps, or it was too short")
    name = max(known, key=known.__getitem__)
    detail = f"the sleeps of {name} came back {1e3 * known[name]:.2f} ms late in the median"
    return Check(ABOUT.name, 1e3 * known[name], 1e3 * LATE_S, "ms late", known[name] <= LATE_S, detail, machine=True)


def stalls(stalled_s: Mapping[str, float | None], window_s: float) -> Check:
    """The process that stood still for longest; by name, for how long in all, of a trial that took ``window_s``. Hosts
    that were to stand still are not among them."""
    known = {name: value for name, value in stalled_s.items() if value is not None}
    if not known:
        return not_watched(STALLS, STALLED, "of JCT", UNSEEN)
    name = max(known, key=known.__getitem__)
    share = known[name] / window_s
    detail = f"{name} stood still for {known[name]:.2f} s, {share:.1%} of the job, the most of all"
    ok = share <= STALLED
    return Check(STALLS.name, share, STALLED, "of JCT", ok, detail, threatens=WHOLE_JOB, machine=True, needed=True)


def _of_others(lines: Sequence[Mapping[str, Any]], seen: Seen) -> dict[str, float]:
    """For which share of the time each process without samples stood still. It is not known when. So long stops are
    compared with the time of all synchronisations, and all stops, brief ones included, with the whole job, because
    every process has brief stops at times."""
    sync_s, whole_s = metrics.sync_s(seen.every), seen.window[1] - seen.window[0]
    return {
        line["name"]: max(line["stalled_s"] / sync_s, line["halted_s"] / whole_s)
        for line in lines
        if line["halted_s"] is not None
    }


def stalls_of_synchronisation(samples: pd.DataFrame, others: Mapping[str, float]) -> Check:
    """The share of the time from its gradient to its sum for which the worst worker stood still, median over
    iterations; or that of one of ``others``, by name."""
    shares = samples["sync_halted_s"] / (samples["sum_s"] - samples["ready_s"])
    share = float(shares.groupby(samples["iteration"]).max().median())
    detail = f"the worst worker stood still for {share:.1%} of its time from gradient to sum"
    for name, other in others.items():
        if other > share:
            share, detail = other, f"{name} (not a worker) stood still for {other:.1%} of the time"
    return Check(HALTS.name, share, HALTED, "of synchronising", share <= HALTED, detail, machine=True, needed=True)
