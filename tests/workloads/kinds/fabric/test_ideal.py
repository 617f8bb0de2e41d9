"""Scheduler and server on an ideal network: what a whole trial comes to, by discrete events."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.build import build
from workloads.kinds.fabric.account import lines, order, problem
from workloads.kinds.fabric.fates import Fate
from workloads.kinds.fabric.ideal import Run, run
from workloads.kinds.fabric.plan import Fabric, Options, fabric
from workloads.kinds.fabric.planning.planner import Work

MBIT = 10**6
UPDATE_BYTES = 1.25 * MBIT
"""0.1 s at 100 Mbit/s."""


def made(workers: int, aggregators: int = 0, **options: object) -> Fabric:
    topology = build(f"star(hosts={workers + 2})", rate_bps=100 * MBIT)
    return fabric(topology, "mlfabric_a", Options(**options), aggregators)  # type: ignore[arg-type]


def work(updates: int, momentum: float = 0.0) -> Work:
    return Work(UPDATE_BYTES, updates, momentum, seed=1, goodput=1.0)


def test_one_worker_alone_takes_its_pace_and_both_ways() -> None:
    found = run(made(1, window_s=0.0), work(3), lambda *_: 1.0)
    assert found.jct_s == pytest.approx(3 * (1.0 + 0.1 + 0.1))
    assert [update.staleness for update in found.updates] == [0, 0, 0]


def test_updates_that_are_ready_together_take_turns_on_the_servers_link() -> None:
    found = run(made(3, window_s=0.0), work(3), lambda *_: 1.0)
    ends = [moved.planned.end_s for moved in found.planner.traffic.moved if moved.planned.members]
    assert ends == pytest.approx([1.1, 1.2, 1.3])


def test_a_window_collects_what_becomes_ready_in_it() -> None:
    found = run(made(2, window_s=0.5), work(2), lambda rank, _: 1.0 + 0.3 * rank)
    starts = [moved.planned.start_s for moved in found.planner.traffic.moved if moved.planned.members]
    assert starts == pytest.approx([1.5, 1.6])


def test_sums_leave_the_servers_link_less_to_carry() -> None:
    alone = run(made(8, window_s=0.1), work(8), lambda *_: 1.0)
    summed = run(made(8, 3, window_s=0.1), work(8), lambda *_: 1.0)
    into = [
        sum(m.planned.size_bytes for m in one.planner.traffic.moved if m.planned.target == 8) for one in (alone, summed)
    ]
    assert into[1] < 0.6 * into[0]
    fates = Counter(fate for _, fate in summed.journal.entries)
    assert fates[Fate.AGGREGATED] > 0
    assert sum(fates.values()) == 8


def test_a_straggler_is_dropped_rather_than_applied_too_late() -> None:
    found = run(made(4, window_s=0.0, delay_bound=4), work(40), lambda rank, _: 3.0 if rank == 0 else 0.5)
    fates = Counter((number % 4, fate) for number, fate in found.journal.entries)
    assert fates[0, Fate.DROPPED] > 0
    assert all(
        step.begin - version < 4
        for step in found.journal.steps
        if step.fate.is_applied
        for version in step.unit.versions
    )


def test_nobody_begins_further_ahead_than_ssp_allows() -> None:
    plan = made(3, window_s=0.0, staleness=1)
    found = run(plan, work(18), lambda rank, _: 2.0 if rank == 0 else 0.3)
    counts = Counter(update.rank for update in found.updates)
    assert max(counts.values()) - min(counts.values()) <= 2
    assert not _wrong(found, plan, 18)


def test_learning_rates_are_those_of_the_positions_at_which_updates_are_applied() -> None:
    plan = made(6, 2, window_s=0.1, delay_bound=20, rate="adaptive", c=0.5)
    found = run(plan, replace(work(24), learning_rate=0.1), lambda rank, _: 0.3 + 0.1 * rank)
    rates = plan.options.rates(0.1)
    assert rates(0, 0) == pytest.approx(1 / (1 / 0.1 + 0.5) / 0.1)
    fates = Counter(step.fate for step in found.journal.steps)
    assert fates[Fate.DIRECT]
    assert fates[Fate.AGGREGATED]
    for step in found.journal.steps:
        wanted = [rates(step.begin + at, version) for at, version in enumerate(step.unit.versions)]
        assert [weights for weights, _ in step.unit.shares] == pytest.approx(wanted)


@given(
    workers=st.integers(1, 6),
    aggregators=st.integers(0, 3),
    window_s=st.sampled_from([0.0, 0.05, 0.4]),
    bound=st.sampled_from([None, 1, 3, 10]),
    staleness=st.sampled_from([None, 0, 2]),
    momentum=st.sampled_from([0.0, 0.5]),
    paces=st.lists(st.sampled_from([0.01, 0.1, 0.15, 0.5, 2.0]), min_size=6, max_size=6),
    iterations=st.integers(1, 4),
)
@settings(max_examples=60)
def test_every_trial_ends_and_its_journal_can_be(
    workers: int,
    aggregators: int,
    window_s: float,
    bound: int | None,
    staleness: int | None,
    momentum: float,
    paces: list[float],
    iterations: int,
) -> None:
    plan = made(workers, min(workers, aggregators), window_s=window_s, delay_bound=bound, staleness=staleness)
    updates = workers * iterations
    found = run(plan, work(updates, momentum), lambda rank, iteration: paces[(rank + iteration) % 6])
    assert not _wrong(found, plan, updates)
    assert len(found.updates) == updates
    assert all(moved.arrived_s is not None for moved in found.planner.traffic.moved if moved.planned.members)
    came = [number for step in found.journal.steps if step.fate != Fate.DROPPED for number in step.unit.members]
    assert came == found.planner.order
    _check_links(found, plan)


def _wrong(found: Run, plan: Fabric, updates: int) -> str:
    steps = [(int(step.fate), step.unit) for step in found.journal.steps]
    told = [[fate, unit.members, unit.versions, unit.shares] for fate, unit in steps]
    read = lines(told, len(plan.workers))
    applied = [step for step in order(read) if not step.is_dropped]
    assert sum(len(step.updates) for step in applied) == found.journal.version
    return problem(read, plan, updates)


def _check_links(found: Run, plan: Fabric) -> None:
    """No link is promised more than it has, at any moment."""
    edges = sorted({t for moved in found.planner.traffic.moved for t in (moved.planned.start_s, moved.planned.end_s)})
    for begin, end in pairwise(edges):
        load: Counter[int] = Counter()
        for moved in found.planner.traffic.moved:
            one = moved.planned
            if one.start_s <= begin + 1e-9 and one.end_s >= end - 1e-9 and end - begin > 1e-6:
                rate = [r for from_s, r in one.rates if from_s <= begin + 1e-9][-1]
                for path in plan.topology.paths(one.source, one.target):
                    for link in path.links:
                        load[link] += rate
        assert max(load.values(), default=0) <= 100 * MBIT * (1 + 1e-9)
