"""A schedule: what must hold of every one."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given

from testbed.workloads.kinds.fabric.scheduling.batch import schedule
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Drop, Group, Schedule, Transfer
from testbed.workloads.kinds.fabric.scheduling.network import Network
from testbed.workloads.kinds.fabric.scheduling.residual import TICK_S
from tests.workloads.kinds.fabric.scheduling.networks import batches, star, updates


def test_a_batch_is_ordered_and_aggregated():
    found = schedule(Batch(updates(4, [100, 90, 80, 70]), (5,), (4,)), star(6))
    assert found.order == (4, 3, 2, 1)
    assert (found.way.direct, found.way.groups, found.dropped) == ((4, 3), (Group(4, (2, 1)),), {})


@given(batches())
def test_each_update_is_direct_in_a_group_or_dropped(asked: tuple[Batch, Network]):
    batch, network = asked
    found = schedule(batch, network)
    assert [*found.way.direct, *(one for group in found.way.groups for one in group.members)] == list(found.order)
    assert sorted([*found.order, *found.dropped]) == sorted(update.id for update in batch.updates)
    used = [group.aggregator for group in found.way.groups]
    assert used == list(batch.aggregators[: len(used)])
    assert set(found.way.arrivals_s) == set(found.order)


@given(batches())
def test_updates_arrive_in_their_order(asked: tuple[Batch, Network]):
    found = schedule(*asked)
    arrivals = [found.way.arrivals_s[one] for one in found.order]
    assert arrivals == sorted(arrivals)
    assert all(at < math.inf for at in arrivals)


@given(batches())
def test_no_link_carries_more_than_its_rate_and_no_bottleneck_two_at_once(asked: tuple[Batch, Network]):
    batch, network = asked
    before = network.copy()
    found = schedule(batch, network)
    links: dict[int, list[Transfer]] = {}
    for one in found.way.transfers:
        for link in network.path(one.source, one.target):
            links.setdefault(link, []).append(one)
    for link in range(10):
        for at in moments(found):
            used = sum(rate(one, at) for one in links.get(link, []))
            assert used + at_moment(network, link, at) == at_moment(before, link, at)
    for one in found.way.transfers:
        for at in (at for at in moments(found) if rate(one, at)):
            assert min(at_moment(network, link, at) for link in network.path(one.source, one.target)) == 0.0


@given(batches())
def test_a_sum_leaves_once_all_of_its_members_are_there(asked: tuple[Batch, Network]):
    batch, network = asked
    found = schedule(batch, network)
    sizes: Mapping[int, tuple[float, ...]] = {update.id: update.sizes_bytes for update in batch.updates}
    for group in found.way.groups:
        for shard in range(len(batch.servers)):
            here = [one for one in found.way.transfers if one.shard == shard and set(one.members) <= set(group.members)]
            collected = {
                one.members[0]: one for one in here if one.target == group.aggregator and len(one.members) == 1
            }
            (handed,) = [one for one in here if one.target == batch.servers[shard]]
            assert handed.members == group.members
            assert handed.start_s >= max(collected[one].end_s for one in group.members)
            largest = max(sizes[one][shard] for one in group.members)
            assert handed.size_bytes == largest * (2 if batch.momentum else 1)


def moments(found: Schedule) -> list[float]:
    """In the middle of each time in which nothing changes; times shorter than a tick are no times."""
    known = sorted({at for one in found.way.transfers for at in (*(at for at, _ in one.rates), one.end_s)})
    return (
        [(a + b) / 2 for a, b in zip(known, [*known[1:], known[-1] + 1], strict=True) if b - a > TICK_S]
        if known
        else []
    )


def rate(one: Transfer, at: float) -> float:
    return next((rate for from_s, rate in reversed(one.rates) if from_s <= at), 0.0) if at < one.end_s else 0.0


def at_moment(network: Network, link: int, at: float) -> float:
    times, rates = network.residual(link)
    return next(rate for from_s, rate in zip(reversed(times[:-1]), reversed(rates), strict=True) if from_s <= at)


def test_synchronous_updates_have_no_deadline_and_nothing_of_them_is_dropped():
    found = schedule(Batch(updates(6), (8,), (6, 7)), star(9, out={5: 50}))
    assert (found.order, found.dropped, found.way.total_s) == ((1, 2, 3, 4, 5, 6), {}, 4.0)
    assert found.way.average_s == pytest.approx((1 + 2 + 3 + 3 + 4 + 4) / 6)


def test_a_batch_of_nothing():
    found = schedule(Batch((), (1,)), star(2))
    assert (found.order, found.dropped, found.way.transfers) == ((), {}, ())
    assert not Drop.__members__.keys() - {"OVERDUE", "BLOCKS", "UNREACHABLE"}
