"""Orders of updates: whatever comes when, each counts once, nobody is too far ahead, and staleness is what it says."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.asynchronous.ledger import Ledger, disagreement, most_stale, problem, staleness
from testbed.workloads.learning.parts import merged, spans, versions
from testbed.workloads.learning.updates import Update


@dataclass(frozen=True)
class Trial:
    """Workers, updates, SSP's bound, servers, and what decides who is the next to do something."""

    world: int
    updates: int
    bound: int | None
    servers: int
    seed: int


@st.composite
def trials(draw: Callable[..., int], most_servers: int = 3) -> Trial:
    world = draw(st.integers(1, 6))
    return Trial(
        world=world,
        updates=world * draw(st.integers(1, 8)),
        bound=draw(st.none() | st.integers(0, 4)),
        servers=draw(st.integers(1, most_servers)),
        seed=draw(st.integers(0, 2**32)),
    )


def played(trial: Trial) -> list[list[Update]]:
    """The orders of a whole trial's servers; checks at each step what workers see.

    At any moment any worker may end its gradient, and any part of a gradient may arrive.
    """
    ranks, served, choose = range(trial.world), range(trial.servers), random.Random(trial.seed)
    ledgers = [Ledger(trial.world, trial.updates, trial.bound, server) for server in served]
    version = [[0] * trial.servers for _ in ranks]
    done, goes_on = [0] * trial.world, [True] * trial.world
    computing, missing, on_the_way = set(ranks), {rank: set[int]() for rank in ranks}, set[tuple[int, int]]()
    while computing or on_the_way:
        rank, server = choose.choice(sorted({(rank, -1) for rank in computing} | on_the_way))
        if server < 0:
            computing.remove(rank)
            goes_on[rank] = ledgers[0].take()
            missing[rank] = {*served}
            on_the_way |= {(rank, server) for server in served}
            continue
        on_the_way.remove((rank, server))
        ledger = ledgers[server]
        assert rank in ledger.computing
        made = ledger.apply(rank, version[rank][server], goes_on[rank])
        assert made == Update(rank, done[rank], version[rank][server], server)
        for one in ledger.release():
            assert goes_on[one] is not ledger.is_complete
            version[one][server] = ledger.version
            missing[one].remove(server)
            if not missing[one]:
                done[one] += 1
                if goes_on[one]:
                    computing.add(one)
                    slowest = min(sum(made.rank == other for made in each.order) for each in ledgers for other in ranks)
                    assert trial.bound is None or done[one] <= slowest + trial.bound
    assert all(ledger.is_complete for ledger in ledgers)
    assert version == [[trial.updates] * trial.servers] * trial.world  # all end with the last weights
    return [ledger.order for ledger in ledgers]


@given(trials())
def test_every_update_counts_once_with_every_server_and_nobody_is_too_far_ahead(trial: Trial) -> None:
    orders = played(trial)
    for order in orders:
        assert len({(one.rank, one.iteration) for one in order}) == trial.updates
        assert problem(order, trial.world, trial.updates, trial.bound) == ""
        if trial.bound is not None:
            assert max(staleness(order)) <= most_stale(trial.world, trial.bound)
    assert disagreement(orders) == ""


@given(trials())
def test_one_process_can_make_the_updates_of_all_servers(trial: Trial) -> None:
    """None before the versions that it was computed on, those of each server in that server's order."""
    orders = played(trial)
    made, needed = [0] * trial.servers, versions([one for order in orders for one in order])
    for update in merged(orders):
        assert all(made[server] >= version for server, version in needed[update.rank, update.iteration].items())
        assert orders[update.server][made[update.server]] is update
        made[update.server] += 1
    assert made == [trial.updates] * trial.servers


@given(trials())
def test_staleness_is_how_many_updates_of_others_came_in_between(trial: Trial) -> None:
    for order in played(trial):
        for at, (update, stale) in enumerate(zip(order, staleness(order), strict=True)):
            between = order[update.version : at]
            assert stale == len(between)
            assert update.rank not in [one.rank for one in between]


@given(trials(most_servers=1), st.data())
def test_an_order_that_cannot_be_is_told(trial: Trial, data: st.DataObject) -> None:
    (order,) = played(trial)
    world, updates, bound = trial.world, trial.updates, trial.bound
    at = data.draw(st.integers(0, updates - 1))
    one = order[at]
    assert problem([*order[:at], *order[at + 1 :]], world, updates, bound)
    other = (one.rank + 1) % world
    # The last of both workers' updates may as well be the other's.
    others = [replace(one, rank=other)] if {later.rank for later in order[at + 1 :]} & {one.rank, other} else []
    for wrong in (
        replace(one, iteration=one.iteration + 1),
        replace(one, version=at + 1),
        replace(one, version=-1),
        *(others if world > 1 else []),
    ):
        changed = [*order[:at], wrong, *order[at + 1 :]]
        assert problem(changed, world, updates, bound)


def test_servers_that_applied_other_updates_are_told() -> None:
    first = [Update(0, 0, 0), Update(1, 0, 0), Update(0, 1, 1), Update(1, 1, 2)]
    other = [Update(1, 0, 0, 1), Update(0, 0, 0, 1), Update(1, 1, 1, 1), Update(1, 2, 3, 1)]
    assert (problem(first, 2, 4, None), problem(other, 2, 4, None)) == ("", "")
    assert disagreement([first, other]) == "iteration 1 of worker 0 was applied by one of servers 0 and 1 only"


def test_a_gradient_that_needs_itself_is_told() -> None:
    """Each worker's was computed on weights with the other's in them."""
    first = [Update(0, 0, 0), Update(1, 0, 1)]
    other = [Update(1, 0, 0, 1), Update(0, 0, 1, 1)]
    assert (problem(first, 2, 2, None), problem(other, 2, 2, None)) == ("", "")
    assert disagreement([first, other]) == "iteration 0 of worker 0 was computed on weights that depend on it"


@given(st.integers(1, 500), st.integers(1, 40))
def test_servers_have_equal_parts_and_all_of_the_weights(floats: int, servers: int) -> None:
    servers = min(floats, servers)
    found = spans(floats, servers)
    assert [start for start, _ in found] == [0, *(stop for _, stop in found[:-1])]
    assert found[-1][1] == floats
    sizes = [stop - start for start, stop in found]
    assert len(sizes) == servers
    assert 1 <= min(sizes) <= max(sizes) <= min(sizes) + 1


def test_a_bound_of_0_lets_all_go_on_together() -> None:
    ledger = Ledger(3, 9, 0)
    for _ in range(2):
        for rank in (2, 0):
            ledger.apply(rank, ledger.given[rank], goes_on=True)
            assert ledger.release() == []
        ledger.apply(1, ledger.given[1], goes_on=True)
        assert ledger.release() == [2, 0, 1]
    assert [one.version for one in ledger.order] == [0, 0, 0, 3, 3, 3]


def test_without_a_bound_a_worker_that_is_never_ready_holds_up_nobody_but_the_end() -> None:
    ledger = Ledger(2, 10, None)
    for _ in range(9):
        ledger.apply(1, ledger.given[1], ledger.take())
        assert ledger.release() == ([1] if len(ledger.order) < 9 else [])  # the tenth is the other's
    ledger.apply(0, 0, ledger.take())
    assert staleness(ledger.order)[-1] == 9
    assert ledger.release() == [1, 0]


def test_updates_can_be_as_stale_as_the_bound_allows() -> None:
    """Worker 0 runs ahead by the bound and then takes long, while all others catch up and run ahead of it."""
    bound, world = 2, 3
    ledger = Ledger(world, 60, bound)

    def work(rank: int) -> bool:
        if rank not in ledger.computing:
            return False
        ledger.apply(rank, ledger.given[rank], goes_on=True)
        ledger.release()
        return True

    while work(0):
        pass
    for rank in (1, 2):  # now worker 0 gets weights, at the bound
        work(rank)
    for rank in (1, 2) * 20:
        work(rank)
    version = ledger.given[0]
    ledger.apply(0, version, goes_on=True)
    assert staleness(ledger.order)[-1] == most_stale(world, bound) == 10


@pytest.mark.parametrize(
    ("rank", "version", "text"),
    [
        (0, 1, "worker 0 sent a gradient of version 1, and was last given 0"),
        (1, 0, "worker 1 sent a gradient of version 0, and was last given 0, after which it has sent one already"),
    ],
)
def test_who_sends_what_it_cannot_have_is_named(rank: int, version: int, text: str) -> None:
    ledger = Ledger(2, 4, 0)
    ledger.apply(1, 0, goes_on=True)
    assert ledger.release() == []
    with pytest.raises(WorkerError) as caught:
        ledger.apply(rank, version, goes_on=True)
    assert caught.value.problem == text


def test_a_gradient_beyond_the_last_is_refused() -> None:
    ledger = Ledger(1, 1, None)
    ledger.apply(0, 0, goes_on=False)
    assert ledger.release() == [0]
    with pytest.raises(WorkerError, match="worker 0 sent a gradient after all 1 updates"):
        ledger.apply(0, 1, goes_on=True)


def test_whoever_is_too_far_ahead_is_told() -> None:
    order = [Update(0, 0, 0), Update(0, 1, 1), Update(0, 2, 2), Update(1, 0, 0)]
    assert problem(order, 2, 4, 2) == ""
    assert problem(order, 2, 4, 1) == "worker 0 began iteration 2 when it was 2 ahead of the slowest"


def test_fewer_updates_than_workers_are_refused() -> None:
    with pytest.raises(ValueError, match="2 updates for 3 workers"):
        Ledger(3, 2, None)
