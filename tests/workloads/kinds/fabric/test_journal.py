"""What a server does with updates that come early, late, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.kinds.fabric.fates import Fate
from workloads.kinds.fabric.journal import Journal, Unit


def alone(number: int, version: int = 0) -> Unit:
    return Unit((number,), (version,), is_sum=False)


def steps(journal: Journal) -> list[tuple[tuple[int, ...], Fate, int]]:
    return [(step.unit.members, step.fate, step.begin) for step in iter(journal.next, None)]


def test_an_update_that_comes_before_its_turn_is_held() -> None:
    journal = Journal(None)
    journal.arrive(alone(5))
    assert steps(journal) == [], "nobody has said when its turn is"
    journal.expect([3, 5], [0, 0])
    assert steps(journal) == []
    assert journal.awaited == [3]
    journal.arrive(alone(3))
    assert steps(journal) == [((3,), Fate.DIRECT, 0), ((5,), Fate.DIRECT, 1)]
    assert (journal.version, journal.entries) == (2, [(3, 0), (5, 0)])


def test_what_is_dropped_is_waited_for_no_longer() -> None:
    journal = Journal(None)
    journal.expect([3, 5], [0, 0])
    journal.arrive(alone(5))
    assert journal.drop(3, 0).fate == Fate.DROPPED
    assert steps(journal) == [((5,), Fate.DIRECT, 0)]
    assert journal.drop(7, 1).begin == 1, "it need not have been expected"
    assert journal.version == 1


@pytest.mark.parametrize(("bound", "fate"), [(3, Fate.DIRECT), (2, Fate.LATE), (1, Fate.LATE)])
def test_what_missed_as_many_as_the_bound_is_not_applied(bound: int, fate: Fate) -> None:
    journal = Journal(bound)
    journal.expect([0, 1, 2], [0, 1, 0])
    for unit in (alone(0), alone(1, 1), alone(2)):
        journal.arrive(unit)
    assert [step[1] for step in steps(journal)] == [Fate.DIRECT, Fate.DIRECT, fate]
    assert journal.version == 2 + (fate == Fate.DIRECT)


def test_of_a_sum_all_is_applied_or_nothing() -> None:
    journal = Journal(2)
    journal.expect([0, 1, 2], [0, 0, 0])
    journal.arrive(Unit((0, 1, 2), (0, 0, 0), is_sum=True))
    assert steps(journal) == [((0, 1, 2), Fate.LATE, 0)]
    assert journal.version == 0


def test_what_cannot_be_is_refused() -> None:
    journal = Journal(None)
    journal.expect([0, 1], [0, 0])
    with pytest.raises(ValueError, match="expected twice"):
        journal.expect([0], [0])
    journal.arrive(alone(0))
    with pytest.raises(ValueError, match="were here before"):
        journal.arrive(alone(0))
    with pytest.raises(ValueError, match="was here before"):
        journal.drop(0, 0)
    assert steps(journal)
    journal.arrive(alone(1, version=1))
    with pytest.raises(ValueError, match=r"expected are updates \[1\] of versions \[0\]"):
        journal.next()


@given(order=st.permutations(range(6)), arrivals=st.permutations(range(6)))
def test_in_whatever_order_updates_come_they_are_applied_in_one(order: list[int], arrivals: list[int]) -> None:
    journal = Journal(None)
    journal.expect(order, [0] * 6)
    for number in arrivals:
        journal.arrive(alone(number))
        assert journal.version <= 6
        list(iter(journal.next, None))
    assert [number for number, _ in journal.entries] == order
