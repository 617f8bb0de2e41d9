"""Scheduler and server on an ideal network: what a whole trial comes to, by discrete events."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.topologies.build import build
from testbed.workloads.kinds.asked import Change, Demand
from testbed.workloads.kinds.fabric.account import lines, order, problem
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.ideal import MOST_UPDATES, Run, predicted, run
from testbed.workloads.kinds.fabric.plan import Fabric, Options, fabric
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric.sums import rates
from tests.workloads.kinds.fabric.scheduling.leads import bound

from .plain_server import played

MBIT = 10**6
DISTANCES = [{"divergence_bound": 0.5}, {"divergence_bound": 3.0}, {"divergence_bound": 1000.0}]
UPDATE_BYTES = 1.25 * MBIT
"""0.1 s at 100 Mbit/s."""


def made(
    workers: int, aggregators: int = 0, sums_for_replica: int | None = None, servers: int = 1, **options: object
) -> Fabric:
    bounds: Options = Options(**options)  # type: ignore[arg-type]
    topology = build(f"star(hosts={workers + servers + 1 + bounds.has_replica})", rate_bps=100 * MBIT)
    return fabric(topology, "mlfabric_a", bounds, aggregators, sums_for_replica, servers)


def work(updates: int, momentum: float = 0.0) -> Work:
    return Work(UPDATE_BYTES, updates, momentum, seed=1, goodput=1.0)


def test_one_worker_alone_takes_its_pace_and_both_ways() -> None:
    found = run(made(1, window_s=0.0), work(3), lambda *_: 1.0)
    assert found.jct_s == pytest.approx(3 * (1.0 + 0.1 + 0.1))
    assert [update.staleness for update in found.updates] == [0, 0, 0]


def test_a_transfer_under_way_feels_a_change_and_what_leaves_later_is_planned_with_it() -> None:
    """After 1 s an update takes 0.1 s. From 1.05 s on its link has half of its rate, so the first one ends at 1.15 s.
    Weights take 0.1 s, and the next update 0.2 s."""
    plan = made(1, window_s=0.0)
    changes = [Change(1.05, {0: 50.0 * MBIT}), Change(100.0, {0: 1.0 * MBIT})]
    found = run(plan, work(2), lambda *_: 1.0, changes=changes)
    assert found.jct_s == pytest.approx(1.15 + 0.1 + 1.0 + 0.2 + 0.1)
    later = [moved.planned for moved in found.planner.traffic.moved if moved.planned.members == (1,)]
    assert later[0].end_s - later[0].start_s == pytest.approx(0.2)


@pytest.mark.parametrize(("lag_s", "planned_s", "takes_s"), [(0.2, 0.2, 0.2), (5.0, 0.1, 0.2)])
def test_a_change_that_is_told_late_is_felt_and_not_planned(lag_s: float, planned_s: float, takes_s: float) -> None:
    plan = made(1, window_s=0.0, lag_s=lag_s)
    found = run(plan, work(1), lambda *_: 1.0, changes=[Change(0.5, {0: 50.0 * MBIT})])
    (update,) = [moved for moved in found.planner.traffic.moved if moved.planned.members]
    assert update.planned.end_s - update.planned.start_s == pytest.approx(planned_s)
    assert update.arrived_s == pytest.approx(1.0 + takes_s)


def test_a_link_that_is_faster_than_told_is_not_used_more_than_planned() -> None:
    """From 0.5 s on the link has half of its rate, and from 0.8 s on all of it, which is told at 5.8 s."""
    plan = made(1, window_s=0.0, lag_s=0.4)
    changes = [Change(0.5, {0: 50.0 * MBIT}), Change(0.8, {0: 100.0 * MBIT})]
    found = run(plan, work(1), lambda *_: 1.0, changes=changes)
    (update,) = [moved for moved in found.planner.traffic.moved if moved.planned.members]
    assert update.arrived_s == pytest.approx(1.2), "the scheduler knows of the half, and not yet of the whole"


@given(
    lag_s=st.sampled_from([0.0, 0.2, 2.0]),
    shares=st.lists(st.sampled_from([0.1, 0.25, 0.5, 1.0]), min_size=8, max_size=8),
    every_s=st.sampled_from([0.3, 1.0]),
    aggregators=st.integers(0, 2),
    bound=st.sampled_from([{}, {"divergence_updates": 3}, {"delay_bound": 4}, {"divergence_bound": 2.0}]),
)
def test_every_trial_ends_whatever_is_told_late(
    lag_s: float, shares: list[float], every_s: float, aggregators: int, bound: dict[str, float]
) -> None:
    plan = made(
        4,
        aggregators,
        0 if "divergence_updates" in bound or "divergence_bound" in bound else None,
        window_s=0.1,
        lag_s=lag_s,
        **bound,
    )
    changes = [
        Change(every_s * i, {2 * (i % 4): share * 100 * MBIT, 2 * (i % 4) + 1: shares[-i] * 100 * MBIT})
        for i, share in enumerate(shares)
    ]
    found = run(plan, work(16), lambda rank, i: 0.1 + 0.05 * ((rank + i) % 3), changes=changes)
    assert len(found.updates) == 16
    assert not _wrong(found, plan, 16)
    for moved in found.planner.traffic.moved:
        assert moved.arrived_s is not None or not moved.planned.members
        if moved.arrived_s is not None:
            assert moved.arrived_s >= moved.planned.end_s - 1e-6, "none is faster than planned"
    _check_passed_on(found, plan)


def _check_passed_on(found: Run, plan: Fabric) -> None:
    """What a daemon sums or passes on leaves once it is there, however late that is; and takes 0.1 s at least."""
    came: dict[tuple[int, tuple[int, ...]], list[float]] = {}
    there = [moved for moved in found.planner.traffic.moved if moved.arrived_s is not None]
    for moved in there:
        came.setdefault((moved.planned.target, moved.planned.members), []).append(moved.arrived_s or 0.0)
    for moved in there:
        one, leaves_s = moved.planned, (moved.arrived_s or 0.0) - 0.1 + 1e-6
        if len(one.members) > 1:
            others = [number for number in one.members if plan.workers[number % len(plan.workers)] != one.source]
            assert all(came[one.source, (number,)][0] <= leaves_s for number in others)
        elif not one.members and one.source in plan.workers:
            assert min(came[one.source, ()]) <= leaves_s


def test_a_sum_waits_for_an_update_that_is_late_and_so_do_weights_that_are_passed_on() -> None:
    """From 0.5 s on, which nobody hears, the last worker's link has a tenth of its rate in both directions."""
    plan = made(4, 1, lag_s=100.0)
    *_, slow = plan.workers
    assert slow not in plan.aggregators
    changes = [Change(0.5, {2 * slow: 10.0 * MBIT, 2 * slow + 1: 10.0 * MBIT})]
    found = run(plan, work(8), lambda *_: 1.0, changes=changes)
    sums = [one for one in found.planner.traffic.moved if len(one.planned.members) > 1]
    late = [one for one in sums if slow in {plan.workers[number % 4] for number in one.planned.members}]
    assert late
    assert all(one.arrived_s is not None and one.arrived_s > one.planned.end_s + 0.5 for one in late)
    _check_passed_on(found, plan)


def test_norms_of_updates_decide_how_far_behind_a_replica_is() -> None:
    """With a bound of 2, updates of norm 0.1 need not wait for the replica, and those of norm 3 do."""
    plan = made(2, 0, 0, window_s=0.0, divergence_bound=2.0)
    small, large = (run(plan, work(8), lambda *_: 0.1, norms=norms) for norms in ({0: 0.1}, {0: 3.0}))
    assert max(_leads(small)) > max(_leads(large)) == 1


def _leads(found: Run) -> list[int]:
    ends = [step.begin + len(step.unit.members) for step in found.journal.steps]
    return [end - had for end, had in zip(ends, found.journal.leads, strict=True)]


def test_what_is_predicted_of_a_trial_are_its_times() -> None:
    pace_s = np.full((1, 3), 1.0)
    demand = Demand(int(UPDATE_BYTES), 3, 1, pace_s, goodput=1.0, seed=1)
    found = predicted(made(1, window_s=0.0), demand, makes_sums=False)
    assert found == {"jct_predicted_s": pytest.approx(3.6), "gst_predicted_s": pytest.approx(0.2)}
    assert predicted(made(1), replace(demand, iterations=MOST_UPDATES + 1), makes_sums=False) == {}
    slower = replace(demand, changes=(Change(0.0, {0: 50.0 * MBIT}),))
    assert predicted(made(1, window_s=0.0), slower, makes_sums=False)["jct_predicted_s"] == pytest.approx(3.9)


def test_a_bounded_distance_is_predicted_with_the_norms_that_a_trial_had() -> None:
    plan = made(1, 0, 0, window_s=0.0, divergence_bound=2.0)
    demand = Demand(int(UPDATE_BYTES), 3, 1, np.full((1, 3), 1.0), goodput=1.0, seed=1)
    assert predicted(plan, demand, makes_sums=False) == {}
    found = predicted(plan, replace(demand, norms={(0, 0): 0.5}), makes_sums=False)
    assert found["jct_predicted_s"] >= 3.6 - 1e-9


def test_a_synchronisation_is_predicted_from_its_last_gradient_to_its_last_sum() -> None:
    """Of three workers, one is ready later. Its gradient takes 0.1 s, and the sum 0.1 s to each."""
    pace_s = np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 2.0]])
    demand = Demand(int(UPDATE_BYTES), 2, 0, pace_s, goodput=1.0, seed=1)
    found = predicted(made(3, window_s=0.0), demand, makes_sums=True)
    assert found == {"jct_predicted_s": pytest.approx(4.8), "gst_predicted_s": pytest.approx(0.4)}


@pytest.mark.parametrize(("pace_s", "displaced"), [(1.5, 3), (4.0, 1)])
@pytest.mark.parametrize("seed", range(4))
def test_where_a_link_is_used_moderately_taking_turns_is_like_sharing(pace_s: float, displaced: int, seed: int) -> None:
    """Four workers that compute for about as long use a quarter or a tenth of the server's link. Updates are there
    in about the order in which a server would get them that takes them as they come, its workers sharing its link: some
    change places with those of others that are there at nearly the same time. The end is not later, for taking turns is
    no slower than sharing, and sooner by 5 % at most."""
    drawn = pace_s * np.random.default_rng(seed).uniform(0.8, 1.2, (4, 12))
    found = run(made(4, window_s=0.0), work(48), lambda rank, i: float(drawn[rank, i % 12]))
    shared = played(lambda rank, i: float(drawn[rank, i % 12]), 4, 48, 0.1, are_shared=True)
    places = {(rank, iteration): at for at, (rank, iteration) in enumerate(shared.order)}
    order = [(number % 4, number // 4) for number in found.planner.order[:40]]
    assert all(abs(places[number] - at) <= displaced for at, number in enumerate(order))
    assert 0.95 * shared.jct_s <= found.jct_s <= 1.01 * shared.jct_s


def test_updates_that_are_ready_together_take_turns_on_the_servers_link() -> None:
    found = run(made(3, window_s=0.0), work(3), lambda *_: 1.0)
    ends = [moved.planned.end_s for moved in found.planner.traffic.moved if moved.planned.members]
    assert ends == pytest.approx([1.1, 1.2, 1.3])


def test_a_window_collects_what_becomes_ready_in_it() -> None:
    found = run(made(2, window_s=0.5), work(2), lambda rank, _: 1.0 + 0.3 * rank)
    starts = [moved.planned.start_s for moved in found.planner.traffic.moved if moved.planned.members]
    assert starts == pytest.approx([1.5, 1.6])


@given(workers=st.integers(2, 8), pace_s=st.sampled_from([0.3, 0.6, 1.0]), seed=st.integers(0, 2**16))
@settings(max_examples=25)
def test_without_sums_bounds_and_window_it_is_an_asynchronous_server(workers: int, pace_s: float, seed: int) -> None:
    """Order, versions and times are those of ``async_ps`` whose server's link carries one transfer after another. If
    all share that link, as those of TCP do, ``async_ps`` takes longer, for the first ends no sooner than the last."""
    drawn = pace_s * np.random.default_rng(seed).uniform(0.7, 1.3, (workers, 8))
    updates = 8 * workers
    found = run(made(workers, window_s=0.0), work(updates), lambda rank, i: float(drawn[rank, i % 8]))
    plain, shared = (
        played(lambda rank, i: float(drawn[rank, i % 8]), workers, updates, 0.1, are_shared=are_shared)
        for are_shared in (False, True)
    )
    units = [step.unit for step in found.journal.steps]
    order = [(number % workers, number // workers) for unit in units for number in unit.members]
    assert order == plain.order
    assert [version for unit in units for version in unit.versions] == plain.versions
    # All that have ended get the last weights at once, in whatever order.
    last_s = plain.there_s[order[-1]]
    ends_s = {(one.rank, one.iteration): one.end_s for one in found.updates}
    for number in (number for number, there_s in plain.there_s.items() if there_s < last_s - workers * 0.1):
        assert ends_s[number] == pytest.approx(plain.there_s[number], abs=1e-6)
    assert found.jct_s == pytest.approx(plain.jct_s, abs=1e-6)
    assert found.jct_s <= 1.05 * shared.jct_s


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


def test_two_servers_share_what_one_has_to_carry() -> None:
    """Each worker's link carries its whole update, and each server's link a half of each."""
    one, two = (run(made(4, servers=servers, window_s=0.1), work(4), lambda *_: 1.0) for servers in (1, 2))
    ends = [
        max(moved.planned.end_s for moved in found.planner.traffic.moved if moved.planned.members)
        for found in (one, two)
    ]
    assert ends == pytest.approx([1.1 + 4 * 0.1, 1.1 + 4 * 0.05 + 0.05], abs=0.051)
    sizes = Counter((moved.planned.target, moved.planned.shard) for moved in two.planner.traffic.moved)
    assert (sizes[4, 0], sizes[5, 1]) == (4, 4)
    assert two.jct_s < one.jct_s


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
    of = plan.options.rates(0.1)
    assert of(0, 0) == pytest.approx(1 / (1 / 0.1 + 0.5) / 0.1)
    fates = Counter(step.fate for step in found.journal.steps)
    assert fates[Fate.DIRECT]
    assert fates[Fate.AGGREGATED]
    for step in found.journal.steps:
        wanted = [of(step.begin + at, version) for at, version in enumerate(step.unit.versions)]
        assert [weights for weights, _ in step.unit.shares] == pytest.approx(wanted)


@given(
    workers=st.integers(1, 6),
    aggregators=st.integers(0, 3),
    window_s=st.sampled_from([0.0, 0.05, 0.4]),
    bound=st.sampled_from([None, 1, 3, 10]),
    staleness=st.sampled_from([None, 0, 2]),
    servers=st.sampled_from([1, 1, 2, 3]),
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
    servers: int,
    momentum: float,
    paces: list[float],
    iterations: int,
) -> None:
    sums = min(workers, aggregators)
    plan = made(workers, sums, servers=servers, window_s=window_s, delay_bound=bound, staleness=staleness)
    updates = workers * iterations
    found = run(plan, work(updates, momentum), lambda rank, iteration: paces[(rank + iteration) % 6])
    assert not _wrong(found, plan, updates)
    assert len(found.updates) == updates
    assert all(moved.arrived_s is not None for moved in found.planner.traffic.moved if moved.planned.members)
    came = [number for step in found.journal.steps if step.fate != Fate.DROPPED for number in step.unit.members]
    assert came == found.planner.order
    assert all(journal.steps == found.journal.steps for journal in found.journals.values())
    _check_links(found, plan)


@given(
    workers=st.integers(1, 6),
    sums=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    window_s=st.sampled_from([0.0, 0.4]),
    delay_bound=st.sampled_from([None, 3]),
    momentum=st.sampled_from([0.0, 0.5]),
    rate=st.sampled_from(["constant", "adaptive"]),
    paces=st.lists(st.sampled_from([0.01, 0.1, 0.5, 2.0]), min_size=6, max_size=6),
    bound=st.sampled_from([{"divergence_updates": 1}, {"divergence_updates": 4}, *DISTANCES]),
)
def test_the_replica_gets_all_and_is_never_further_behind_than_it_may_be(
    workers: int,
    sums: tuple[int, int],
    window_s: float,
    delay_bound: int | None,
    momentum: float,
    rate: str,
    paces: list[float],
    bound: dict[str, float],
) -> None:
    for_server = min(workers, sums[0])
    for_replica = min(workers - for_server, sums[1])
    options = {"window_s": window_s, "delay_bound": delay_bound, "rate": rate, "c": 0.5, **bound}
    plan = made(workers, for_server, for_replica, **options)
    found = run(plan, work(4 * workers, momentum), lambda rank, iteration: paces[(rank + iteration) % 6])
    assert not _wrong(found, plan, 4 * workers)
    applied = [
        [u for step in j.steps if step.fate.is_applied for u in step.unit.members] for j in (found.journal, found.copy)
    ]
    assert applied[0] == applied[1]
    assert found.journal.version == found.copy.version
    _check_leads(found, plan, momentum)
    _check_links(found, plan)


def test_a_looser_bound_lets_more_be_summed_where_server_and_replica_share_a_link() -> None:
    """Fig. 9: the replica then gets fewer bytes."""
    topology = build("spine_leaf(racks=4,hosts_per_rack=3,spines=1,oversubscription=3)", rate_bps=100 * MBIT)
    got = []
    for most in (3, 24):
        plan = fabric(topology, "mlfabric_a", Options(divergence_updates=most, window_s=0.1), 2, 2)
        found = run(plan, work(72), lambda rank, _: 0.5 + 0.05 * rank)
        got.append(sum(m.planned.size_bytes for m in found.planner.traffic.moved if m.planned.target == plan.replica))
    assert got[1] < 0.9 * got[0]


def _check_leads(found: Run, plan: Fabric, momentum: float) -> None:
    """By eq. 11, from what was applied when the replica had what."""
    options, norms, at = plan.options, [], 0
    for step, replicated in zip(found.journal.steps, found.journal.leads, strict=True):
        if step.fate == Fate.DROPPED:
            continue
        assert step.fate != Fate.LATE, "the scheduler does not send what comes too late"
        norms += rates(step.unit.shares, momentum)
        at += len(step.unit.members)
        lead = at - replicated
        if options.divergence_updates is not None:
            assert lead <= options.divergence_updates
        elif lead > 1:
            assert bound(0.0, norms, momentum, replicated) <= options.divergence_bound * (1 + 1e-9)


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
