"""Weights on their way to workers: algorithm 3 backwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.kinds.fabric.scheduling.aggregation import Destination, aggregate
from testbed.workloads.kinds.fabric.scheduling.distribution import Request, distribute
from testbed.workloads.kinds.fabric.scheduling.model import Group, Update
from testbed.workloads.kinds.fabric.scheduling.network import Network
from tests.workloads.kinds.fabric.scheduling.networks import SIZE_BYTES, networks, star


def test_four_workers_and_a_distributor_take_three_seconds():
    way = distribute(Request((0, 1, 2, 3), (5,), (SIZE_BYTES,), (4,)), star(6))
    assert (way.direct, way.groups, way.total_s) == ((0, 1), (Group(4, (2, 3)),), 3.0)
    sent = [(one.source, one.target, one.start_s, one.end_s) for one in way.transfers]
    assert sent == [(5, 4, 0.0, 1.0), (5, 0, 1.0, 2.0), (4, 2, 1.0, 2.0), (5, 1, 2.0, 3.0), (4, 3, 2.0, 3.0)]
    assert way.arrivals_s == {0: 2.0, 1: 3.0, 2: 2.0, 3: 3.0}
    assert {one.members for one in way.transfers} == {()}


def test_without_a_distributor_they_take_four():
    assert distribute(Request((0, 1, 2, 3), (4,), (SIZE_BYTES,)), star(5)).total_s == 4.0


def test_the_last_distributor_is_first():
    """As fig. 6 backwards: the last worker is behind 50 Mbit/s."""
    way = distribute(Request((0, 1, 2, 3, 4, 5), (8,), (SIZE_BYTES,), (6, 7)), star(9, into={5: 50}))
    assert (way.direct, way.total_s) == ((0, 1), 4.0)
    assert way.groups == (Group(7, (4, 5)), Group(6, (2, 3)))


def test_a_distributor_that_asked_has_the_weights_itself():
    way = distribute(Request((0, 1, 2, 3), (4,), (SIZE_BYTES,), (3,)), star(5))
    assert way.groups == (Group(3, (2, 3)),)
    assert (way.total_s, way.arrivals_s[3]) == (3.0, 1.0)


def test_a_distributor_gets_the_weights_once():
    """Host 3 distributes, and asked, too: the servers do not send to it again, wherever it is in the order."""
    way = distribute(Request((3, 0, 1, 2), (4,), (SIZE_BYTES,), (3,)), star(5, into={3: 99}))
    assert sorted(one.target for one in way.transfers if one.source == 4 and one.target == 3) == [3]


def test_weights_leave_when_they_are_ready():
    way = distribute(Request((0, 1), (2,), (SIZE_BYTES,), ready_s=5.0), star(3))
    assert way.arrivals_s == {0: 6.0, 1: 7.0}


def test_shards_arrive_together():
    half = SIZE_BYTES / 2
    way = distribute(Request((0, 1, 2, 3), (5, 6), (half, half), (4,)), star(7, out={5: 50, 6: 50}))
    assert (way.groups, way.total_s) == ((Group(4, (2, 3)),), 3.0)


def test_a_worker_without_a_rate_is_left_out():
    way = distribute(Request((0, 1), (2,), (SIZE_BYTES,)), star(3, into={0: 0}))
    assert way.arrivals_s == {1: 1.0}


@given(networks(), st.lists(st.integers(0, 3), unique=True), st.lists(st.integers(0, 3), unique=True, max_size=2))
def test_every_worker_that_can_be_reached_has_the_weights(
    network: Network, workers: list[int], distributors: list[int]
):
    before = network.copy()
    way = distribute(Request(tuple(workers), (4,), (1e6,), tuple(distributors)), network)
    assert sorted([*way.direct, *(one for group in way.groups for one in group.members)]) == sorted(way.arrivals_s)
    direct = distribute(Request(tuple(workers), (4,), (1e6,)), before)
    assert set(way.arrivals_s) == set(direct.arrivals_s) <= set(workers)
    assert way.total_s <= direct.total_s + 1e-9
    there = {one.target: one.end_s for one in way.transfers if one.source == 4}
    assert all(one.start_s >= there[one.source] for one in way.transfers if one.source != 4)


@given(st.integers(1, 12), st.integers(1, 3))
def test_where_all_links_are_alike_it_takes_as_long_as_updates_do(workers: int, distributors: int):
    server, helpers = workers + distributors, tuple(range(workers, workers + distributors))
    network = star(server + 1)
    updates = [Update(one, one, (SIZE_BYTES,), 0) for one in range(workers)]
    there = aggregate(updates, Destination((server,), helpers), network.copy())
    back = distribute(Request(tuple(range(workers)), (server,), (SIZE_BYTES,), helpers), network)
    assert back.total_s == pytest.approx(there.total_s)
