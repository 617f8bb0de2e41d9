"""Who may get weights when."""

from __future__ import annotations

import pytest

from testbed.workloads.kinds.fabric.planning.turns import Turn, Turns


def test_workers_go_on_until_no_iteration_is_left_and_all_end_together() -> None:
    turns = Turns(2, 3, None)
    turns.decided(0, 1.0)
    assert turns.taken(1.0) == [Turn(0, goes_on=True)]
    turns.decided(0, 2.0)
    assert turns.taken(2.0) == [], "no iteration is left"
    turns.decided(1, 5.0)
    assert turns.is_complete
    assert turns.taken(5.0) == [Turn(0, goes_on=False, held_s=3.0), Turn(1, goes_on=False)]


def test_nobody_gets_further_ahead_than_staleness_allows() -> None:
    turns = Turns(2, 20, 1)
    turns.decided(0, 1.0)
    assert turns.taken(1.0) == [Turn(0, goes_on=True)]
    turns.decided(0, 2.0)
    assert turns.taken(2.0) == []
    turns.decided(1, 4.0)
    assert turns.taken(4.0) == [Turn(0, goes_on=True, held_s=2.0), Turn(1, goes_on=True)]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="1 updates for 2 workers"):
        Turns(2, 1, None)
    turns = Turns(2, 20, None)
    turns.decided(0, 1.0)
    with pytest.raises(ValueError, match="waits already"):
        turns.decided(0, 1.0)


def test_who_is_lost_keeps_nobody_waiting_and_leaves_its_share_undone() -> None:
    turns = Turns(3, 9, staleness=0)
    for rank in (0, 1):
        turns.decided(rank, 0.0)
    assert turns.taken(0.0) == []
    turns.lose(2)
    turns.lose(2)
    assert [turn.rank for turn in turns.taken(1.0)] == [0, 1]
    turns.decided(2, 1.0)  # its update was there before it was lost
    for rank in (0, 1):
        turns.decided(rank, 2.0)
    assert [turn.rank for turn in turns.taken(2.0)] == [0, 1]
    assert not turns.is_complete
    for rank in (0, 1):
        turns.decided(rank, 3.0)
    assert turns.is_complete, "two of 2 would have been to come"
    assert [(turn.rank, turn.goes_on) for turn in turns.taken(3.0)] == [(0, False), (1, False)]


def test_who_follows_turns_takes_them_over_and_holds_the_same_bound() -> None:
    turns = Turns(4, 12, 0)
    for rank in (0, 1):
        turns.decided(rank, 1.0)
        turns.give(rank, goes_on=True)
    for rank in (2, 1):
        turns.decided(rank, 5.0)
    turns.decided(0, 5.0)
    turns.give(0, goes_on=True)
    turns.lose(3)
    assert [turn.rank for turn in turns.taken(6.0)] == [2], "1 is ahead of 2"
    turns.decided(0, 7.0)
    assert turns.taken(7.0) == []
    turns.decided(2, 8.0)
    assert [(turn.rank, turn.held_s) for turn in turns.taken(8.0)] == [(1, 3.0), (2, 0.0)]


def test_who_was_told_to_end_gets_no_other_turn() -> None:
    turns = Turns(2, 2, None)
    for rank in (0, 1):
        turns.decided(rank, 1.0)
    turns.give(0, goes_on=False)
    assert [(turn.rank, turn.goes_on) for turn in turns.taken(9.0)] == [(1, False)]


def test_turns_are_resumed_with_a_server_that_was_started_again() -> None:
    turns = Turns.resumed([2, 1], [0], 6, 0, 5.0)
    assert turns.taken(6.0) == [], "0 is ahead of 1"
    turns.decided(1, 7.0)
    assert [(turn.rank, turn.held_s) for turn in turns.taken(8.0)] == [(0, 3.0), (1, 1.0)]
    turns.decided(0, 9.0)
    turns.decided(1, 9.0)
    assert [turn.goes_on for turn in turns.taken(9.0)] == [False, False], "six have begun"
