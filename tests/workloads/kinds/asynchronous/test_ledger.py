"""Orders of updates: whatever comes when, each counts once, nobody is too far ahead, and staleness is what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.base.errors import WorkerError
from workloads.kinds.asynchronous.ledger import Ledger, most_stale, problem, staleness
from workloads.updates import Update

Trials = tuple[int, int, int | None, list[int]]


@st.composite
def trials(draw: Callable[..., int]) -> Trials:
    """Workers, updates, bound, and who is the next to be ready, by its place among those that compute."""
    world = draw(st.integers(1, 6))
    updates = world * draw(st.integers(1, 8))
    bound = draw(st.none() | st.integers(0, 4))
    return world, updates, bound, draw(st.lists(st.integers(0, 5), min_size=updates, max_size=updates))


def played(trial: Trials) -> Ledger:
    """A whole trial; checks at each step what workers see."""
    world, updates, bound, ready = trial
    ledger = Ledger(world, updates, bound)
    done, released_at = [0] * world, [0] * world
    for choice in ready:
        computing = ledger.computing
        rank = computing[choice % len(computing)]
        assert ledger.apply(rank, released_at[rank]) == Update(rank, done[rank], released_at[rank])
        done[rank] += 1
        for one in ledger.release():
            assert one.rank not in ledger.computing or one.goes_on
            assert one.goes_on is not ledger.is_complete
            if bound is not None and one.goes_on:
                assert done[one.rank] - min(done) <= bound
            released_at[one.rank] = ledger.version
    assert ledger.is_complete
    assert released_at == [updates] * world  # all end with the last weights
    return ledger


@given(trials())
def test_every_update_counts_once_and_nobody_is_too_far_ahead(trial: Trials) -> None:
    world, updates, bound, _ = trial
    order = played(trial).order
    assert len({(one.rank, one.iteration) for one in order}) == updates
    assert problem(order, world, updates, bound) == ""
    if bound is not None:
        assert max(staleness(order)) <= most_stale(world, bound)


@given(trials())
def test_staleness_is_how_many_updates_of_others_came_in_between(trial: Trials) -> None:
    order = played(trial).order
    for at, (update, stale) in enumerate(zip(order, staleness(order), strict=True)):
        between = order[update.version : at]
        assert stale == len(between)
        assert update.rank not in [one.rank for one in between]


@given(trials(), st.data())
def test_an_order_that_cannot_be_is_told(trial: Trials, data: st.DataObject) -> None:
    world, updates, bound, _ = trial
    order = played(trial).order
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


def test_a_bound_of_0_lets_all_go_on_together() -> None:
    ledger = Ledger(3, 9, 0)
    for _ in range(2):
        for rank in (2, 0):
            ledger.apply(rank, ledger.given[rank])
            assert ledger.release() == []
        ledger.apply(1, ledger.given[1])
        assert [(one.rank, one.goes_on) for one in ledger.release()] == [(2, True), (0, True), (1, True)]
    assert [one.version for one in ledger.order] == [0, 0, 0, 3, 3, 3]


def test_without_a_bound_a_worker_that_is_never_ready_holds_up_nobody_but_the_end() -> None:
    ledger = Ledger(2, 10, None)
    for _ in range(9):
        ledger.apply(1, ledger.given[1])
        released = ledger.release()
        assert len(released) == (len(ledger.order) < 9)  # the tenth is the other's
    ledger.apply(0, 0)
    assert staleness(ledger.order)[-1] == 9
    assert [(one.rank, one.goes_on) for one in ledger.release()] == [(1, False), (0, False)]


def test_updates_can_be_as_stale_as_the_bound_allows() -> None:
    """Worker 0 runs ahead by the bound and then takes long, while all others catch up and run ahead of it."""
    bound, world = 2, 3
    ledger = Ledger(world, 60, bound)

    def work(rank: int) -> bool:
        if rank not in ledger.computing:
            return False
        ledger.apply(rank, ledger.given[rank])
        ledger.release()
        return True

    while work(0):
        pass
    for rank in (1, 2):  # now worker 0 gets weights, at the bound
        work(rank)
    for rank in (1, 2) * 20:
        work(rank)
    version = ledger.given[0]
    ledger.apply(0, version)
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
    ledger.apply(1, 0)
    assert ledger.release() == []
    with pytest.raises(WorkerError) as caught:
        ledger.apply(rank, version)
    assert caught.value.problem == text


def test_whoever_is_too_far_ahead_is_told() -> None:
    order = [Update(0, 0, 0), Update(0, 1, 1), Update(0, 2, 2), Update(1, 0, 0)]
    assert problem(order, 2, 4, 2) == ""
    assert problem(order, 2, 4, 1) == "worker 0 began iteration 2 when it was 2 ahead of the slowest"


def test_fewer_updates_than_workers_are_refused() -> None:
    with pytest.raises(ValueError, match="2 updates for 3 workers"):
        Ledger(3, 2, None)
