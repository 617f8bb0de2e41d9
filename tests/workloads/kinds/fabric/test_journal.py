"""What a server does with updates that come early, late, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.journal import Copy, Journal, Unit
from testbed.workloads.kinds.fabric.scheduling.divergence import Lead


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


def held_by_replica(most: float | None, most_updates: int | None, norms: list[float]) -> list[list[int]]:
    """What is applied at once, when the replica has nothing, one update, two, and so on."""
    journal = Journal(None, Lead(most, most_updates), 0.0)
    journal.expect(range(len(norms)), [0] * len(norms), norms)
    for number in range(len(norms)):
        journal.arrive(alone(number))
    found = []
    for journal.replicated in range(len(norms) + 1):
        found.append([number for members, _, _ in steps(journal) for number in members])
    return found


def test_the_server_goes_no_further_ahead_of_the_replica_than_the_bound() -> None:
    assert held_by_replica(None, 2, [1.0] * 4) == [[0, 1], [2], [3], [], []]
    assert held_by_replica(2.5, None, [1.0] * 4) == [[0, 1], [2], [3], [], []]
    assert held_by_replica(5.0, None, [1.0] * 4) == [[0, 1, 2, 3], [], [], [], []]
    assert held_by_replica(2.5, None, [1.0, 9.0, 1.0]) == [[0], [1], [2], []], "one beyond the bound goes through alone"


def test_norms_count_with_momentum_and_with_what_an_update_counts() -> None:
    journal = Journal(None, Lead(4.0, None, momentum=0.5), 0.5)
    journal.expect([0, 1, 2], [0, 0, 0], [2.0, 2.0, 2.0])
    for number in range(3):
        journal.arrive(alone(number))
    assert len(list(iter(lambda: journal.next(lambda *_: 0.5), None))) == 2, "1 + 1.5, and 1.75 would be too much"
    assert journal.waits_for_replica
    journal.replicated = 1
    assert journal.next(lambda *_: 0.5) is not None
    assert journal.leads == [0, 0, 1]


def test_what_is_late_does_not_move_the_weights() -> None:
    journal = Journal(1, Lead(1.0, None), 0.0)
    journal.expect([0, 1, 2], [0, 0, 1], [1.0, 9.0, 1.0])
    for number, version in enumerate([0, 0, 1]):
        journal.arrive(alone(number, version))
    assert [fate for _, fate, _ in steps(journal)] == [Fate.DIRECT, Fate.LATE]
    journal.replicated = 1
    assert [fate for _, fate, _ in steps(journal)] == [Fate.DIRECT]


def test_a_replica_applies_what_the_server_has_applied_in_units_of_its_own() -> None:
    copy = Copy()
    copy.expect([4, 5, 6, 7], [0, 0, 0, 0])
    copy.arrive(Unit((5, 6), (0, 0), is_sum=True, shares=((1.0, 1.0),) * 2))
    assert copy.here == 0
    copy.arrive(alone(4))
    assert copy.here == 3
    assert steps(copy) == [], "the server has applied nothing"
    copy.decided([(4, int(Fate.DIRECT)), (5, int(Fate.AGGREGATED))])
    assert steps(copy) == [((4,), Fate.DIRECT, 0)]
    copy.decided([(6, int(Fate.AGGREGATED)), (7, int(Fate.LATE))])
    assert steps(copy) == [((5, 6), Fate.AGGREGATED, 1)]
    copy.arrive(alone(7))
    assert steps(copy) == [((7,), Fate.LATE, 3)]
    assert (copy.here, copy.version) == (4, 3)


def test_a_replica_waits_for_nothing_that_was_dropped() -> None:
    copy = Copy()
    copy.expect([4, 5], [0, 0])
    copy.arrive(alone(5))
    copy.decided([(3, int(Fate.DROPPED)), (4, int(Fate.DIRECT)), (5, int(Fate.DIRECT))])
    copy.arrive(alone(4))
    assert (copy.here, [members for members, *_ in steps(copy)]) == (2, [(4,), (5,)])


def test_a_replica_that_takes_over_makes_up_for_the_server_and_then_decides() -> None:
    """The server had applied 4 and 5, dropped 2, and told of 4 only. A sum contains 5 and 6, which is new. Update 7,
    of which the replica has not heard, is too stale."""
    copy = Copy()
    copy.expect([4, 5, 6], [0, 0, 1])
    copy.arrive(alone(4))
    copy.decided([(4, int(Fate.DIRECT))])
    assert steps(copy) == [((4,), Fate.DIRECT, 0)]
    entries = [(2, int(Fate.DROPPED)), (4, int(Fate.DIRECT)), (5, int(Fate.DIRECT))]
    copy.take_over([4, 5, 6, 7], [0, 0, 1, 0], entries, 3)
    assert not copy.is_level
    copy.arrive(Unit((5, 6), (0, 1), is_sum=True, shares=((1.0, 1.0),) * 2))
    (step,) = iter(copy.next, None)
    assert (step.fate, copy.new(step)) == (Fate.AGGREGATED, [(6, int(Fate.AGGREGATED))])
    assert copy.is_level
    copy.arrive(alone(7))
    assert steps(copy) == [((7,), Fate.LATE, 3)]
    copy.drop(8, 3)
    assert copy.entries == [*entries, (6, int(Fate.AGGREGATED)), (7, int(Fate.LATE)), (8, int(Fate.DROPPED))]
    assert (copy.inherited, copy.own_from, copy.version) == (3, 1, 3)


@pytest.mark.parametrize(
    ("order", "entries", "problem"),
    [
        ([5, 4], [(4, 0)], "the order was"),
        ([4, 5], [], "which nobody else knows"),
    ],
)
def test_a_replica_takes_over_only_what_goes_on_where_it_is(
    order: list[int], entries: list[tuple[int, int]], problem: str
) -> None:
    copy = Copy()
    copy.expect([4, 5], [0, 0])
    copy.arrive(alone(4))
    copy.decided([(4, int(Fate.DIRECT))])
    steps(copy)
    with pytest.raises(ValueError, match=problem):
        copy.take_over(order, [0, 0], entries, None)


def test_a_sum_of_which_the_server_has_discarded_a_part_is_refused() -> None:
    copy = Copy()
    copy.expect([4, 5], [0, 0])
    copy.arrive(Unit((4, 5), (0, 0), is_sum=True))
    copy.decided([(4, int(Fate.DIRECT)), (5, int(Fate.LATE))])
    with pytest.raises(ValueError, match="discarded a part of updates"):
        copy.next()


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
    assert journal.arrive(alone(0))
    with pytest.raises(ValueError, match="was here before"):
        journal.drop(0, 0)
    assert steps(journal)
    journal.arrive(alone(1, version=1))
    with pytest.raises(ValueError, match=r"expected are updates \[1\] of versions \[0\]"):
        journal.next()


def test_what_was_here_does_not_count_again_alone_or_in_a_sum() -> None:
    journal = Journal(None)
    journal.expect([0, 1, 2], [0, 0, 0])
    assert journal.arrive(Unit((0, 1), (0, 0), is_sum=True))
    assert not journal.arrive(alone(1))
    assert not journal.arrive(Unit((1, 2), (0, 0), is_sum=True)), "2 comes again, too"
    assert journal.arrive(alone(2))
    assert [number for step in steps(journal) for number in step[0]] == [0, 1, 2]


def test_what_is_given_up_is_waited_for_no_longer_and_not_taken() -> None:
    journal = Journal(None)
    journal.expect([0, 1, 2], [0, 0, 0])
    for unit in (alone(1), alone(2)):
        journal.arrive(unit)
    journal.forget(0)
    journal.forget(2)
    assert not journal.arrive(alone(0))
    assert [number for step in steps(journal) for number in step[0]] == [1, 2], "2 was here"


def test_without_a_scheduler_updates_have_their_turn_as_they_come() -> None:
    journal = Journal(3)
    journal.expect([0, 1, 2, 3], [0, 0, 0, 0])
    for unit in (Unit((2, 3), (0, 0), is_sum=True), alone(1), alone(9)):
        journal.arrive(unit)
    journal.open()
    assert steps(journal) == [((1,), Fate.DIRECT, 0), ((2, 3), Fate.AGGREGATED, 1), ((9,), Fate.LATE, 3)]
    journal.forget(0)
    journal.arrive(alone(0, version=3))
    assert steps(journal) == [], "its worker is lost"
    journal.arrive(alone(4, version=3))
    assert steps(journal) == [((4,), Fate.DIRECT, 3)]


@given(order=st.permutations(range(6)), arrivals=st.permutations(range(6)))
def test_in_whatever_order_updates_come_they_are_applied_in_one(order: list[int], arrivals: list[int]) -> None:
    journal = Journal(None)
    journal.expect(order, [0] * 6)
    for number in arrivals:
        journal.arrive(alone(number))
        assert journal.version <= 6
        list(iter(journal.next, None))
    assert [number for number, _ in journal.entries] == order


def test_a_copy_that_begins_again_has_what_the_server_had() -> None:
    copy = Copy()
    copy.expect([4, 5], [0, 0])
    copy.arrive(alone(5))
    copy.decided([(4, int(Fate.DIRECT))])
    copy.begin_again(7, 6)
    assert copy.here == 7, "one of the seven was late"
    copy.expect([5], [4])
    assert copy.here == 7, "what came before does not count"
    copy.arrive(alone(5, 4))
    assert copy.here == 8
    assert steps(copy) == []
    copy.decided([(5, int(Fate.DIRECT))])
    assert steps(copy) == [((5,), Fate.DIRECT, 6)]
    assert copy.version == 7


def test_an_open_journal_knows_the_norms_that_came_with_updates() -> None:
    journal = Journal(None, Lead(2.5, None), 0.0)
    journal.expect([0, 1], [0, 0], [1.0, 1.0])
    journal.arrive(alone(1), [9.0])
    journal.open()
    journal.arrive(alone(2), [2.0])
    assert journal.norms == {0: 1.0, 1: 1.0, 2: 2.0}, "the scheduler's word counts"
    assert journal.turn == alone(1)
    assert [members for members, *_ in steps(journal)] == [(1,)]
    assert (journal.at, journal.turn) == (1, alone(2)), "both would be too much"
    journal.replicated = 5
    assert [members for members, *_ in steps(journal)] == [(2,)]
    assert journal.leads == [0, 2], "it may be ahead, and counts no more than what had its turn"
