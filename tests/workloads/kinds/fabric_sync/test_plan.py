"""The least times of synchronisations whose sums a scheduler plans: true of every schedule, and near the best one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, product
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads.kinds.fabric.ideal import run
from testbed.workloads.kinds.fabric.plan import Options, unsummed
from testbed.workloads.kinds.fabric.plan import fabric as made
from testbed.workloads.kinds.fabric.planning.work import Work
from testbed.workloads.kinds.fabric_sync.plan import SumsCost, cost_of
from testbed.workloads.sync.cost import IDEAL

Root = Literal["server", "random"]
SIZE_BYTES, BPS = 1_000_000, 8_000_000
"""1 s at this rate."""


def star(speeds: Sequence[int]) -> Topology:
    """Links of the workers and of the server, this many times as fast."""
    plain = build(f"star(hosts={len(speeds) + 1})", rate_bps=BPS)
    rates = [*speeds, 1]
    return replace(
        plain, links=tuple(replace(one, rate_bps=BPS * rate) for one, rate in zip(plain.links, rates, strict=True))
    )


def least(speeds: Sequence[int], aggregators: int, window_s: float = 0.0, root: Root = "server") -> SumsCost:
    topology = star(speeds)
    plan = made(topology, "mlfabric_s", Options(window_s=window_s, root=root), aggregators)
    return cost_of(unsummed(plan, SIZE_BYTES), plan, topology, SIZE_BYTES)


def at_once_s(found: SumsCost) -> float:
    """The least time if all gradients are ready at once."""
    return found.done_s(dict.fromkeys(found.workers, 0.0), IDEAL)


def test_without_sums_all_gradients_take_the_servers_link_there_and_back() -> None:
    assert at_once_s(least([1] * 5, 0)) == pytest.approx(4 + 4)


def test_the_last_gradient_alone_goes_there_and_the_sum_to_everybody() -> None:
    found = least([1] * 5, 0)
    assert found.done_s({0: 0.0, 1: 0.0, 2: 0.0, 3: 9.0}, IDEAL) == pytest.approx(9 + 1 + 4)
    assert found.bound_s() == pytest.approx(1 + 4)


def test_nothing_leaves_before_the_window_ends_that_the_first_gradient_begins() -> None:
    ready_s = {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.9}
    assert least([1] * 5, 0, 0.5).done_s(ready_s, IDEAL) == pytest.approx(0.5 + 4 + 4)


def test_an_aggregator_gets_others_gradients_while_the_server_does() -> None:
    """Of four, the server gets two, and the aggregator one besides its own: the sum is there after 3 s."""
    assert at_once_s(least([1] * 5, 1)) == pytest.approx(3 + 3)


def test_a_slow_worker_takes_its_own_time() -> None:
    found = least([1, 1, 1, 4, 4], 0)
    assert at_once_s(replace(found, workers={**found.workers, 0: (1, BPS / 10)})) == pytest.approx(10 + 10)


def test_a_root_needs_no_wire_for_its_own_gradient_and_sum() -> None:
    """Of four workers, three send a gradient each to the root, and get the sum."""
    found = least([1] * 4, 0, root="random")
    assert at_once_s(found) == pytest.approx(3 + 3)
    assert found.wire_bytes == pytest.approx(2 * 3 * SIZE_BYTES)


def test_the_last_gradient_may_be_the_roots_own() -> None:
    found = least([1] * 4, 0, root="random")
    assert found.bound_s() == pytest.approx(3)
    assert found.done_s({0: 0.0, 1: 0.0, 2: 0.0, 3: 9.0}, IDEAL) == pytest.approx(9 + 3)


def test_a_sum_passes_the_slowest_workers_link_whoever_is_the_root() -> None:
    found = least([1] * 3, 0, root="random")
    slow = replace(found, workers={**found.workers, 0: (1, BPS / 10)})
    assert slow.bound_s() == pytest.approx(10)


def best_s(found: SumsCost) -> float:
    """When the server has all gradients at the earliest, by trying who sends to whom: sums are sent once a group is
    there, and what is ready first goes first. No link is slower than the server's."""
    workers, times = list(found.workers), []
    for ways in product((None, *found.aggregators), repeat=len(workers)):
        ready_s = [0.0] * sum(way is None for way in ways)
        for one in found.aggregators:
            members = [node for node, way in zip(workers, ways, strict=True) if way == one]
            if members:
                others = [found.workers[node][1] for node in members if node != one]
                each_s = [8 * SIZE_BYTES / rate_bps for rate_bps in others]
                ready_s.append(max([len(others) * 8 * SIZE_BYTES / found.workers[one][1], *each_s]))
        free_s = 0.0
        for at_s in sorted(ready_s):
            free_s = max(free_s, at_s) + 8 * SIZE_BYTES / BPS
        times.append(free_s)
    return min(times)


@given(st.lists(st.sampled_from([1, 2, 4]), min_size=2, max_size=5), st.integers(0, 2))
@settings(max_examples=25, deadline=None)
def test_no_way_is_faster_and_the_best_one_is_hardly_slower(workers: list[int], count: int) -> None:
    found = least([*workers, 1], count)
    gathered_s, best = at_once_s(found) / 2, best_s(found)
    assert gathered_s <= best + 1e-9
    assert best <= 1.5 * gathered_s


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_the_scheduler_is_never_faster(data: st.DataObject) -> None:
    speeds = data.draw(st.lists(st.sampled_from([1, 2, 5]), min_size=2, max_size=7))
    root: Root = data.draw(st.sampled_from(["server", "random"]))
    workers = len(speeds) - (root == "server")
    aggregators, iterations = data.draw(st.integers(0, 2)), 3
    window_s = data.draw(st.sampled_from([0.0, 1.0]))
    found = least(speeds, min(aggregators, workers), window_s, root)
    pace_s = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.5, 3.0]), min_size=workers, max_size=workers)))
    paces_s = np.tile(pace_s[:, None], iterations)
    topology = star(speeds)
    plan = made(topology, "mlfabric_s", Options(window_s=window_s, root=root), min(aggregators, workers))
    work = Work(SIZE_BYTES, workers * iterations, 0.0, 1, 1.0)
    played = run(plan, work, lambda rank, i: float(paces_s[rank, i]), makes_sums=True)
    assert played.jct_s >= found.least_jct_s(paces_s, IDEAL) - 1e-6
    ordered = sorted(played.updates, key=lambda one: one.iteration)
    for _, group in groupby(ordered, key=lambda one: one.iteration):
        those = list(group)
        ready_s = {plan.workers[one.rank]: one.ready_s for one in those}
        last_s = max(one.end_s for one in those)
        assert last_s >= found.done_s(ready_s, IDEAL) - 1e-6
        assert last_s - max(ready_s.values()) >= found.bound_s() - 1e-6
