"""Algorithm 3: which updates are summed on the way, and where."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.scheduling.aggregation import Destination, aggregate, aggregate_with
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Group, Update, Way
from testbed.workloads.kinds.fabric.scheduling.network import Network
from tests.workloads.kinds.fabric.scheduling import plain
from tests.workloads.kinds.fabric.scheduling.networks import MBIT, SIZE_BYTES, batches, large, racks, star, updates


def test_fig_2_straight_to_the_server():
    way = aggregate(updates(4), Destination((5,)), star(6))
    assert way.arrivals_s == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}
    assert (way.direct, way.groups, way.average_s, way.total_s) == ((1, 2, 3, 4), (), 2.5, 4.0)


def test_fig_2_with_an_aggregator():
    way = aggregate(updates(4), Destination((5,), (4,)), star(6))
    assert (way.direct, way.groups, way.total_s) == ((1, 2), (Group(4, (3, 4)),), 3.0)
    assert way.arrivals_s == {1: 1.0, 2: 2.0, 3: 3.0, 4: 3.0}
    sent = [(one.source, one.target, one.start_s, one.end_s, one.members) for one in way.transfers]
    assert sent == [
        (0, 5, 0.0, 1.0, (1,)),
        (2, 4, 0.0, 1.0, (3,)),
        (1, 5, 1.0, 2.0, (2,)),
        (3, 4, 1.0, 2.0, (4,)),
        (4, 5, 2.0, 3.0, (3, 4)),
    ]


def fig_6() -> Network:
    return star(9, out={5: 50})


def test_fig_6_with_three_direct():
    """What n = 3 gives: u6 is not in the first group, as collecting it would take 4 s."""
    assert plain.case(3, updates(6), (8,), (6, 7), 1, fig_6()) == (5.0, 1 + 2 + 3 + 2 * 4 + 5.0, 3, [[4, 5], [6]])


def test_fig_6_with_three_direct_is_what_the_algorithm_makes_of_that_case():
    way = aggregate_with(3, updates(6), Destination((8,), (6, 7)), fig_6())
    assert [list(group.members) for group in way.groups] == [[4, 5], [6]]
    assert (way.direct, way.total_s) == ((1, 2, 3), 5.0)


@pytest.mark.parametrize("direct", range(7))
def test_each_case_is_that_of_the_printed_algorithm(direct: int):
    way = aggregate_with(direct, updates(6), Destination((8,), (6, 7)), fig_6())
    total_s, _, straight, groups = plain.case(direct, updates(6), (8,), (6, 7), 1, fig_6())
    assert (way.total_s, len(way.direct)) == (pytest.approx(total_s), straight)
    assert [list(group.members) for group in way.groups] == groups


def test_fig_6_best():
    way = aggregate(updates(6), Destination((8,), (6, 7)), fig_6())
    assert (way.direct, way.total_s) == ((1, 2), 4.0)
    assert way.groups == (Group(6, (3, 4)), Group(7, (5, 6)))


def test_with_momentum_a_sum_has_twice_the_bytes():
    way = aggregate(updates(4), Destination((5,), (4,), momentum=0.9), star(6))
    assert way.total_s == 4.0
    assert (way.direct, way.groups) == ((1, 2, 3, 4), ())  # {3, 4} would end at 4 s, too, and on average later
    way = aggregate(updates(6), Destination((7,), (6,), momentum=0.9), star(8))
    assert (way.direct, way.groups, way.total_s) == ((1, 2, 3), (Group(6, (4, 5, 6)),), 5.0)
    assert way.transfers[-1].size_bytes == 2 * SIZE_BYTES


def test_the_last_aggregator_takes_the_rest():
    way = aggregate(updates(5), Destination((6,), (5,)), star(7, into={6: 25}))
    assert (way.direct, way.groups, way.total_s) == ((1,), (Group(5, (2, 3, 4, 5)),), 8.0)


def test_of_equal_totals_the_least_average_wins():
    """All three direct take 3 s, as does any other case with this slow aggregator."""
    way = aggregate(updates(2), Destination((3,), (2,)), star(4, into={2: 50}, out={2: 50}))
    assert (way.direct, way.groups) == ((1, 2), ())


def test_without_updates_there_is_no_way():
    assert aggregate((), Destination((2,), (1,)), star(3)) == Way()


def test_an_aggregator_without_a_rate_is_not_used():
    way = aggregate(updates(4), Destination((5,), (4,)), star(6, into={4: 0}))
    assert (way.direct, way.total_s) == ((1, 2, 3, 4), 4.0)


def test_a_worker_hands_its_update_to_an_aggregator_on_its_own_host():
    way = aggregate(updates(4), Destination((4,), (3,)), star(5))
    assert (way.direct, way.groups, way.total_s) == ((1, 2), (Group(3, (3, 4)),), 3.0)
    assert [(one.source, one.start_s, one.end_s) for one in way.transfers if one.target == 3] == [(2, 0, 1), (3, 0, 0)]


def test_an_order_that_arrives_in_another_is_held():
    way = aggregate(
        (Update(1, 0, (SIZE_BYTES,), 0), Update(2, 1, (SIZE_BYTES,), 0)), Destination((2,)), star(3, out={0: 10})
    )
    assert way.arrivals_s == {1: 10.0, 2: 10.0}
    assert [one.end_s for one in way.transfers] == [10.0, pytest.approx(100 / 90)]


def test_what_never_arrives_has_no_end():
    way = aggregate(updates(2), Destination((3,), (2,)), star(4, out={1: 0}))
    assert way.arrivals_s == {1: 1.0, 2: math.inf}


def test_a_group_has_all_components_of_its_updates():
    """Both servers are half as fast as a worker, so that it sends both of its components at once."""
    half = SIZE_BYTES / 2
    waiting = tuple(Update(one.id, one.worker, (half, half), 0) for one in updates(4))
    way = aggregate(waiting, Destination((5, 6), (4,)), star(7, into={5: 50, 6: 50}))
    assert (way.direct, way.groups, way.total_s) == ((1, 2), (Group(4, (3, 4)),), 3.0)
    assert [(one.source, one.target, one.shard) for one in way.transfers if one.members == (3, 4)] == [
        (4, 5, 0),
        (4, 6, 1),
    ]


def test_the_replica_says_so():
    way = aggregate(updates(4), Destination((5,), (4,), is_replica=True), star(6))
    assert all(one.is_replica for one in way.transfers)


def check(updates: tuple[Update, ...], destination: Destination, network: Network) -> None:
    expected = plain.aggregate(updates, destination.targets, destination.aggregators, destination.sums, network)
    way = aggregate(updates, destination, network)
    total, waited, direct, groups = expected
    assert [len(way.direct), [list(group.members) for group in way.groups]] == [direct, groups]
    assert (way.total_s, sum(way.arrivals_s.values())) == (pytest.approx(total), pytest.approx(waited))


@given(batches())
def test_the_way_is_that_of_the_plain_algorithm(asked: tuple[Batch, Network]):
    batch, network = asked
    check(batch.updates, Destination(batch.servers, batch.aggregators, batch.momentum), network)


@pytest.mark.parametrize("seed", range(4))
def test_the_way_of_many(seed: int):
    batch, network = large(40, seed)
    check(batch.updates, Destination(batch.servers, batch.aggregators), network)


@pytest.mark.parametrize("seed", range(2))
def test_the_way_to_a_replica_of_many(seed: int):
    """Links have other things to carry, so that a worker's is not the same all the time."""
    batch, network = large(30, seed)
    aggregate(batch.updates, Destination(batch.servers, batch.aggregators[:3]), network)
    check(batch.updates, Destination((29,), batch.aggregators[3:]), network)


def test_hosts_behind_shared_links():
    network = Network(build("spine_leaf(racks=2,hosts_per_rack=4,spines=1)", rate_bps=100 * MBIT))
    check(updates(6), Destination((7,), (6,)), network)


@pytest.mark.parametrize("seed", range(2))
def test_the_way_of_many_components(seed: int):
    batch, network = large(16, seed, servers=2)
    check(batch.updates, Destination(batch.servers, batch.aggregators, momentum=0.9 * seed), network)


@pytest.mark.parametrize("seed", range(2))
def test_the_way_of_many_in_racks(seed: int):
    """The last rack's server and replica share its link. That of the other racks carries all that their hosts send."""
    network = racks(4, 25e6 * (2 + seed))
    waiting = tuple(replace(one, worker=one.id % 9) for one in large(12, seed)[0].updates)
    aggregate(waiting, Destination((9,), (0, 4)), network)
    check(waiting, Destination((10,), (1, 5), is_replica=True), network)
