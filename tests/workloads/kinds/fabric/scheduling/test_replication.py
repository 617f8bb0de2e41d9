"""What goes to the replica, against fig. 3 and against the bound at every commit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads.kinds.fabric.scheduling import replication
from testbed.workloads.kinds.fabric.scheduling.aggregation import Destination, aggregate
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Rates, Replicated, Replication, Transfer, Update, Way
from testbed.workloads.kinds.fabric.scheduling.network import Network
from testbed.workloads.kinds.fabric.scheduling.ordering import order
from testbed.workloads.kinds.fabric.scheduling.replication import replicate
from tests.workloads.kinds.fabric.scheduling.leads import bound, changes

MBIT = 1_000_000
STAR = build("star(hosts=8)", rate_bps=100 * MBIT)
U1, U2 = (Update(1, 0, (12.5e6,), 0, norm=2), Update(2, 1, (12.5e6,), 0, norm=3))
SERVER, REPLICA = 7, 6
LAGS: Rates = {2 * REPLICA + 1: ((0.0, 50.0 * MBIT),)}
"""What leads to the replica has half the rate of the others."""
FIGURE_3 = Batch((U1, U2), (SERVER,), momentum=0.9, replication=Replication(REPLICA, history=1))


def replicated(batch: Batch, topology: Topology = STAR, rates: Rates = LAGS) -> tuple[Way, Replicated]:
    network = Network(topology, rates)
    ordered = order(batch, network).order
    way = aggregate(ordered, Destination(batch.servers, batch.aggregators, batch.momentum), network)
    return replicate(batch, ordered, way, network)


def with_bound(batch: Batch, **changed: object) -> Batch:
    assert batch.replication
    return replace(batch, replication=replace(batch.replication, **changed))  # type: ignore[arg-type]


def test_a_replica_that_lags_by_two_is_left_behind_within_the_bound() -> None:
    """Fig. 3(a): both are at the server at 2 s. u1 has 50 Mbit/s to the replica once its worker has sent it, to 3 s."""
    way, found = replicated(with_bound(FIGURE_3, most=8.51))
    assert way.arrivals_s == {1: 1, 2: 2}
    assert found.punted == (1, 2)
    assert found.way.transfers == ()
    assert found.divergence == pytest.approx(8.51)
    assert (found.delayed_s, found.breaches, found.commits_s) == (0, 0, {1: 1, 2: 2})


def test_the_last_update_waits_until_the_replica_has_the_first() -> None:
    """Fig. 3(b): u2 begins at 3 s, when u1 is at the replica; the rest is punted."""
    way, found = replicated(with_bound(FIGURE_3, most=8.5))
    assert way.arrivals_s == {1: 1, 2: 4}
    assert [(one.start_s, one.end_s) for one in way.transfers] == [(0, 1), (3, 4)]
    assert found.way.direct == (1,)
    assert [(one.source, one.target, one.start_s, one.end_s) for one in found.way.transfers] == [(0, REPLICA, 1, 3)]
    assert found.punted == (2,)
    assert found.divergence == pytest.approx(5.61)
    assert (found.delayed_s, found.breaches, found.commits_s) == (2, 0, {1: 1, 2: 4})


def test_without_a_bound_the_replica_gets_what_is_there_in_time() -> None:
    way, found = replicated(FIGURE_3, rates={})
    assert way.arrivals_s == {1: 1, 2: 2}
    assert found.way.arrivals_s == {1: 2, 2: 2}  # u2 is there after 1 s already, and waits for its turn
    assert (found.punted, found.divergence) == ((), 0)


def test_a_bound_in_updates() -> None:
    way, found = replicated(with_bound(FIGURE_3, most_updates=1))
    assert (way.arrivals_s[2], found.punted, found.breaches) == (4, (2,), 0)


def test_an_update_that_is_beyond_the_bound_alone_goes_through() -> None:
    """After all before it are at the replica, and it is counted."""
    way, found = replicated(with_bound(FIGURE_3, most=1))
    assert way.arrivals_s[2] == 4
    assert (found.punted, found.breaches) == ((2,), 2)
    assert found.divergence == pytest.approx(5.61)


@pytest.mark.parametrize(("most_updates", "direct"), [(4, (8,)), (3, (8, 9)), (2, (8, 9))])
def test_once_a_commit_needs_one_that_was_punted_all_of_them_go(most_updates: int, direct: tuple[int, ...]) -> None:
    """Update 8 is there at 2 s, 9 at 4 s. With 8 there the servers may be ahead by 9, 1 and 2."""
    behind = (Update(8, 2, (12.5e6,), 0, norm=1), Update(9, 3, (12.5e6,), 0, norm=1))
    _, found = replicated(with_bound(FIGURE_3, behind=behind, most_updates=most_updates))
    assert found.way.direct == direct
    assert found.punted == tuple(one for one in (8, 9, 1, 2) if one not in direct)


def test_the_last_update_waits_only_for_what_its_commit_needs() -> None:
    behind = (Update(8, 2, (12.5e6,), 0, norm=1), Update(9, 3, (12.5e6,), 0, norm=1))
    way, found = replicated(with_bound(FIGURE_3, behind=behind, most_updates=3))
    assert found.commits_s[2] == way.arrivals_s[2] == 2
    assert found.way.arrivals_s == {8: 2, 9: 4}


def test_an_early_update_is_held_at_the_server_until_the_replica_has_caught_up() -> None:
    """The servers may be ahead by one. The second is there at 2 s, and u1 at the replica at 3 s. The last one is sent
    when the replica has two."""
    batch = replace(FIGURE_3, updates=(U1, U2, Update(3, 2, (12.5e6,), 0, norm=1)))
    way, found = replicated(with_bound(batch, most_updates=1))
    assert way.arrivals_s[2] == 2
    assert found.commits_s == {1: 1, 2: 3, 3: way.arrivals_s[3]}
    assert found.way.arrivals_s == {1: 3, 2: 4}  # u2's worker is free in the first second, and after the second
    assert way.arrivals_s[3] == 5
    assert found.punted == (3,)


def test_a_replica_that_nothing_can_reach_stops_nobody() -> None:
    way, found = replicated(with_bound(FIGURE_3, most=6), rates={2 * REPLICA + 1: ((0.0, 0.0),)})
    assert way.arrivals_s == {1: 1, 2: 2}
    assert (found.punted, found.breaches) == ((1, 2), 1)


def test_a_batch_of_which_nothing_is_sent_replicates_nothing() -> None:
    batch = with_bound(replace(FIGURE_3, updates=()), behind=(U1,))
    way, found = replicated(batch)
    assert (way.transfers, found.punted, found.commits_s) == ((), (1,), {})


def test_what_is_still_to_be_committed_of_earlier_batches_is_replicated_without_new_updates() -> None:
    batch = with_bound(replace(FIGURE_3, updates=()), behind=(U1, U2), most_updates=1)
    _, found = replicated(batch)
    assert found.punted == ()
    assert with_bound(batch, most_updates=2).replication
    assert replicated(with_bound(batch, most_updates=2))[1].punted == (1, 2)


sizes = st.sampled_from([1e6, 2.5e6, 12.5e6])


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Up to five updates on up to two servers, aggregators for both, updates that are behind, and any bound."""
    servers = (7,) if draw(st.booleans()) else (7, 5)
    made = [
        Update(
            number,
            worker,
            tuple(draw(sizes) for _ in servers),
            version=10,
            ready_s=draw(st.sampled_from([0.0, 0.3])),
            norm=draw(st.sampled_from([0.5, 1.0, 3.0])),
        )
        for number, worker in enumerate(draw(st.lists(st.integers(0, 4), unique=True, min_size=1)))
    ]
    cut = draw(st.integers(0, len(made) - 1))
    return Batch(
        updates=tuple(made[cut:]),
        servers=servers,
        aggregators=(0, 1)[: draw(st.integers(0, 2))],
        version=10,
        momentum=draw(st.sampled_from([0.0, 0.9])),
        replication=Replication(
            replica=REPLICA,
            aggregators=(3, 4)[: draw(st.integers(0, 2))],
            behind=tuple(made[:cut]),
            most=draw(st.none() | st.sampled_from([2.0, 6.0, 12.0])),
            most_updates=draw(st.none() | st.integers(1, 3)),
            history=draw(st.sampled_from([0.0, 1.0])),
        ),
    )


@given(batches(), st.sampled_from([{}, LAGS]))
def test_at_every_commit_the_bound_holds_or_an_update_is_beyond_it_alone(batch: Batch, rates: Rates) -> None:
    asked = batch.replication
    assert asked
    way, found = replicated(batch, rates=rates)
    sent = [*way.direct, *(id_ for group in way.groups for id_ in group.members)]
    by_id = {one.id: one for one in (*asked.behind, *batch.updates)}
    waiting = [*(one.id for one in asked.behind), *sent]
    norms = [by_id[one].norm for one in waiting]
    frozen = [*found.way.direct, *(id_ for group in found.way.groups for id_ in group.members)]
    assert [*frozen, *found.punted] == waiting  # a prefix of the servers' order; nothing lost, and nothing twice
    at_replica_s = there(found.way.transfers, {REPLICA}, frozen)
    at_servers_s = there(way.transfers, set(batch.servers), sent)
    assert all(at_servers_s[one] <= found.commits_s[one] + 1e-9 for one in sent)
    beyond, committed = 0, len(asked.behind)
    for members in (*((one,) for one in way.direct), *(group.members for group in way.groups)):
        committed += len(members)
        moment_s = found.commits_s[members[-1]]
        held = sum(one_s <= moment_s + 1e-9 for one_s in at_replica_s.values())
        norm = bound(asked.history, norms[:committed], batch.momentum, held)
        is_far = asked.most is not None and norm > asked.most * (1 + 1e-9)
        beyond += is_far or (asked.most_updates is not None and committed - held > asked.most_updates)
    assert beyond == found.breaches
    if beyond:
        assert asked.most is not None
        assert max(changes(asked.history, norms, batch.momentum)[len(asked.behind) :]) > asked.most
    carried(STAR, rates, [*way.transfers, *found.way.transfers])


@pytest.mark.parametrize("lags", [{}, LAGS])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_way_that_is_not_planned_would_have_brought_nothing(lags: Rates, momentum: float) -> None:
    """Of a batch of one update, with more and more that waits for the replica."""
    behind = [Update(8 + number, worker, (12.5e6,), 0, norm=1) for number, worker in enumerate((2, 3, 4, 2, 3))]
    asked = [
        with_bound(
            replace(FIGURE_3, updates=(U1,), momentum=momentum),
            behind=tuple(replace(one, ready_s=ready_s) for one in behind[:count]),
            aggregators=(3, 4)[:sums],
            most_updates=most,
        )
        for count in (0, 1, 5)
        for sums in (0, 2)
        for most in (None, 3)
        for ready_s in (0.0, 0.5, 1.0)
    ]
    with patch.object(replication, "aggregate", wraps=aggregate) as plan:
        found = [replicated(batch, rates=lags) for batch in asked]
    assert 0 < plan.call_count < len(asked)
    with patch.object(replication._Lead, "_first_s", return_value=0.0):
        assert [replicated(batch, rates=lags) for batch in asked] == found


def there(transfers: Iterable[Transfer], targets: set[int], ids: list[int]) -> dict[int, float]:
    """When each is at its targets with all before it, by the ends of transfers alone."""
    ends_s = {
        one: max(transfer.end_s for transfer in transfers if one in transfer.members and transfer.target in targets)
        for one in ids
    }
    return {one: max(ends_s[before] for before in ids[: i + 1]) for i, one in enumerate(ids)}


def carried(topology: Topology, rates: Rates, transfers: list[Transfer]) -> None:
    """No link has more than its rate at any moment, and each transfer has its bytes."""
    moments = sorted({step_s for one in transfers for step_s, _ in one.rates} | {one.end_s for one in transfers})
    for moment_s in moments:
        loads: dict[int, float] = {}
        for one in transfers:
            for link in topology.paths(one.source, one.target)[0].links:
                loads[link] = loads.get(link, 0.0) + rate_at(one, moment_s)
        for link, load in loads.items():
            assert load <= dict(rates).get(link, [(0, topology.links[link // 2].rate_bps)])[-1][1] + 1e-3
    for one in transfers:
        if one.source != one.target:
            ends = [step_s for step_s, _ in one.rates[1:]] + [one.end_s]
            bits = sum(rate * (end - begin) for (begin, rate), end in zip(one.rates, ends, strict=True))
            assert bits == pytest.approx(8 * one.size_bytes, rel=1e-6)


def rate_at(transfer: Transfer, moment_s: float) -> float:
    """In the middle of a nanosecond after it, for steps begin within a tick of each other."""
    now_s = moment_s + 2e-9
    if not transfer.rates or not transfer.rates[0][0] <= now_s < transfer.end_s:
        return 0.0
    return [rate for from_s, rate in transfer.rates if from_s <= now_s][-1]


def test_the_helper_sees_a_link_with_too_much() -> None:
    both = [Transfer(source, SERVER, 0, 1, 12.5e6, rates=((0.0, 100.0 * MBIT),)) for source in (0, 1)]
    with pytest.raises(AssertionError):
        carried(STAR, {}, both)
