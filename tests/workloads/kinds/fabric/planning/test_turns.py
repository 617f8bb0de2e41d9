"""Who may get weights when."""

from __future__ import annotations

import pytest

from workloads.kinds.fabric.planning.turns import Turn, Turns


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
