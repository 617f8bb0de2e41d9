"""Algorithms 1 and 2: the order of updates, and which are dropped."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.scheduling import picking
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Drop, Update
from testbed.workloads.kinds.fabric.scheduling.network import Network, loads
from testbed.workloads.kinds.fabric.scheduling.ordering import Ordering, deadline, order
from tests.workloads.kinds.fabric.scheduling import plain
from tests.workloads.kinds.fabric.scheduling.networks import MBIT, batches, large, star, updates


def ids(ordering: Ordering) -> list[int]:
    return [update.id for update in ordering.order]


def due(count: int, *deadlines: int) -> tuple[Update, ...]:
    """Updates with these deadlines, where the delay bound and the batch's version are 5."""
    return tuple(replace(one, version=at) for one, at in zip(updates(count), deadlines, strict=True))


@given(st.lists(st.integers(1, 400), min_size=1, max_size=6))
def test_on_one_bottleneck_no_order_has_a_better_average(sizes_mbit: list[int]):
    waiting = updates(len(sizes_mbit), sizes_mbit)
    network = star(len(sizes_mbit) + 1)
    servers = (len(sizes_mbit),)
    found = order(Batch(waiting, servers), network).order
    best = min(average_s(one, servers, network) for one in permutations(waiting))
    assert average_s(found, servers, network) == pytest.approx(best)


def average_s(ordered: tuple[Update, ...], servers: tuple[int, ...], network: Network) -> float:
    network = network.copy()
    return sum(network.reserve_all(loads(one, servers))[0].end_s for one in ordered) / len(ordered)


def test_of_equal_transfers_the_lowest_rank_goes_first():
    backwards = updates(4)[::-1]
    assert ids(order(Batch(backwards, (4,)), star(5))) == [1, 2, 3, 4]


def test_fig_5_drops_an_update_for_which_the_server_would_wait():
    batch = Batch(due(2, 1, 5), (2,), version=5, delay_bound=5)
    network = star(3, out={0: 10})
    assert [deadline(one, batch) for one in batch.updates] == [1, 5]
    assert network.last_s(loads(batch.updates[0], (2,))) == 10.0
    after = network.copy()
    after.reserve_all(loads(batch.updates[0], (2,)))
    assert after.last_s(loads(batch.updates[1], (2,))) == pytest.approx(1.11, abs=0.002)
    found = order(batch, network)
    assert (ids(found), found.dropped) == ([2], {1: Drop.BLOCKS})
    assert network.last_s(loads(found.order[0], (2,))) == 1.0


def test_an_update_that_is_due_goes_before_a_shorter_one():
    waiting = tuple(replace(one, version=at) for one, at in zip(updates(3, [80, 90, 100]), (9, 9, 1), strict=True))
    batch = Batch(waiting, (3,), version=5, delay_bound=5)
    assert ids(order(batch, star(4))) == [3, 1, 2]


def test_two_updates_due_at_the_second_position_are_both_in_time():
    batch = Batch(due(4, 9, 9, 2, 2), (4,), version=5, delay_bound=5)
    assert order(batch, star(5)) == Ordering(tuple(batch.updates[at] for at in (2, 3, 0, 1)))


def test_of_two_updates_due_at_the_first_position_the_one_that_ends_first_is_sent():
    waiting = tuple(replace(one, version=1) for one in updates(2, [100, 80]))
    batch = Batch(waiting, (2,), version=5, delay_bound=5)
    assert order(batch, star(3)) == Ordering((waiting[1],), {1: Drop.OVERDUE})


def test_an_update_is_overdue_before_its_batch():
    batch = Batch(due(2, 0, 9), (2,), version=5, delay_bound=5)
    assert order(batch, star(3)) == Ordering((batch.updates[1],), {1: Drop.OVERDUE})


def test_a_position_is_free_again_once_its_update_is_dropped():
    """The third, due at position 1 as the first is, is overdue only as long as the first stays."""
    batch = Batch(due(3, 1, 5, 2), (3,), version=5, delay_bound=5)
    found = order(batch, star(4, out={0: 10}))
    assert (ids(found), found.dropped) == ([2, 3], {1: Drop.BLOCKS})


def test_an_update_that_is_dropped_no_longer_speaks_for_the_one_before_it():
    """Both of the slow ones are due. The second would end after the first, but the third before either."""
    batch = Batch(due(3, 1, 2, 9), (3,), version=5, delay_bound=5)
    found = order(batch, star(4, out={0: 20, 1: 10}))
    assert (ids(found), found.dropped) == ([3], {1: Drop.BLOCKS, 2: Drop.BLOCKS})


def test_what_has_its_place_keeps_it():
    waiting = updates(3, [100, 80, 60])
    batch = Batch(waiting, (3,), delay_bound=9, placed=(1,))
    assert ids(order(batch, star(4))) == [1, 3, 2]
    assert ids(order(replace(batch, delay_bound=1), star(4))) == [1]


def test_an_update_without_a_rate_is_dropped():
    batch = Batch(updates(3), (3,), placed=(2,))
    assert order(batch, star(4, out={0: 0, 1: 0})) == Ordering(
        (batch.updates[2],), {1: Drop.UNREACHABLE, 2: Drop.UNREACHABLE}
    )


def test_components_are_reserved_together():
    """Section 10.2: taken one by one, both components for the first server would go before any for the second."""
    small, large = 10 * MBIT / 8, 100 * MBIT / 8
    waiting = (Update(1, 0, (small, large), 0), Update(2, 1, (small, large), 0))
    network = star(4)
    batch = Batch(waiting, (2, 3))
    assert ids(order(batch, network)) == [1, 2]
    ends = [[sent.end_s for sent in network.reserve_all(loads(one, batch.servers))] for one in waiting]
    assert ends == [[pytest.approx(0.1), pytest.approx(1.1)], [pytest.approx(0.2), pytest.approx(2.0)]]


def test_the_update_whose_slowest_component_ends_first_is_taken():
    waiting = (Update(1, 0, (1e6, 9e6), 0), Update(2, 1, (4e6, 4e6), 0))
    assert ids(order(Batch(waiting, (2, 3)), star(4))) == [2, 1]


@given(batches())
def test_the_order_is_that_of_the_plain_algorithm(asked: tuple[Batch, Network]):
    batch, network = asked
    before = [network.residual(link) for link in range(10)]
    found = order(batch, network)
    assert [network.residual(link) for link in range(10)] == before
    expected = plain.order(batch, network)
    assert (ids(found), found.dropped) == expected
    assert sorted([*ids(found), *found.dropped]) == sorted(one.id for one in batch.updates)


@given(batches())
def test_to_ask_few_updates_has_the_same_answer(asked: tuple[Batch, Network]):
    batch, network = asked
    with patch.object(picking, "MANY", 1), patch.object(picking, "MANY_PARTS", 1):
        found = order(batch, network)
    assert (ids(found), found.dropped) == plain.order(batch, network)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_many(seed: int):
    batch, network = large(picking.MANY + 10, seed)
    found = order(batch, network)
    assert (ids(found), found.dropped) == plain.order(batch, network)
    assert {Drop.BLOCKS} <= set(found.dropped.values())


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_many_components(seed: int):
    batch, network = large(2 * picking.MANY_PARTS, seed, servers=2)
    found = order(batch, network)
    assert (ids(found), found.dropped) == plain.order(batch, network)


@given(batches())
def test_bounds_on_delay_hold_and_updates_arrive_in_their_order(asked: tuple[Batch, Network]):
    batch, network = asked
    found = order(batch, network)
    for position, update in enumerate(found.order, 1):
        assert update.id in batch.placed or position <= deadline(update, batch)
    ends = [max(one.end_s for one in network.reserve_all(loads(update, batch.servers))) for update in found.order]
    behind = ends[len(set(batch.placed) - set(found.dropped)) :]
    if len(batch.servers) == 1:  # a component that is slowed down leaves its worker's link to another
        assert all(a <= b + 1e-8 for a, b in pairwise(behind))


def test_a_network_with_several_hops():
    """Hosts 0 and 1 share a rack, and all that leads out of it."""
    network = Network(build("spine_leaf(racks=2,hosts_per_rack=2,spines=1)", rate_bps=100 * MBIT))
    waiting = updates(3, [100, 90, 95])
    assert ids(order(Batch(waiting, (3,)), network)) == [2, 3, 1]
