"""What an account forgives of a trial that has lost processes, and what it does not."""

from __future__ import annotations

import pandas as pd
import pytest

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric import account
from testbed.workloads.kinds.fabric.fates import Fate, Line
from testbed.workloads.kinds.fabric.losses_account import NOBODY, Came, Leg, Losses
from testbed.workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a
from testbed.workloads.learning.updates import Update

PLAN = mlfabric_a(build("star(hosts=4)", rate_bps=10**9), [1], aggregators=1)
"""Two workers, h0 and h1; h2 is the server, and h3 the scheduler."""
ALONE = ((1.0, 1.0),)
SERVER = {
    "lost": [(1, 5.0, 5.1), (3, 6.0, None)],
    "lost_at": [(1, 1), (3, 2)],
    "update_bytes": 100,
    "came": [(0, [0], 100), (0, [1, 2], 200)],
    "gave": [(2, 0), (0, 1)],
}


def line(*updates: Update, fate: Fate = Fate.DIRECT) -> Line:
    return Line(fate, updates, ALONE * len(updates))


def test_who_is_lost_is_a_worker_or_not() -> None:
    losses = Losses.told(PLAN, SERVER)
    assert losses.ranks == {1: 1}
    assert losses.others == {3}
    assert losses.spoilt == 2 * 2 * 4 * 100
    assert losses
    assert not Losses.told(PLAN, {"journal": []})


def test_a_scheduler_tells_unless_it_is_lost() -> None:
    lost = Losses.told(PLAN, SERVER)
    assert not lost.problem([])
    assert not NOBODY.problem([{}])
    assert lost.problem([{}]) == "1 schedulers tell what they planned"
    assert NOBODY.problem([]).startswith("the scheduler was lost when all was done")


def test_without_a_scheduler_the_server_tells_what_was_sent() -> None:
    sent = Losses.told(PLAN, SERVER).moved(PLAN)
    assert sorted(sent) == [(0, 1, 100), (0, 2, 100), (0, 2, 200), (1, 0, 100), (2, 0, 100)]


@pytest.mark.parametrize(("count", "is_enough"), [(4, True), (2, True), (1, False)])
def test_updates_of_a_lost_worker_may_lack_and_no_others(count: int, *, is_enough: bool) -> None:
    journal = [line(Update(0, at, at)) for at in range(count)]
    wrong = account.problem(journal, PLAN, 4, Losses({1: 0}))
    assert (not wrong) is is_enough, wrong
    without = account.problem(journal, PLAN, 4)
    assert without == ("" if count == 4 else f"it is known what became of {count} updates, of 4")


def test_of_updates_that_were_lost_with_a_server_workers_tell_only_that_they_were_made() -> None:
    journal = [line(Update(0, 0, 0)), line(Update(1, 0, 0), fate=Fate.LOST), line(Update(0, 1, 1))]
    told = pd.DataFrame(
        {
            "rank": [0, 1, 0],
            "iteration": [0, 0, 1],
            "update": [0, 2, 2],
            "version": [0, 0, 1],
            "staleness": [0, 1, 0],
            "fate": [0, 1, 0],
        }
    )
    losses = Losses.told(PLAN, {**SERVER, "lost": [(2, 5.0, 5.1, [])], "lost_at": [(2, 1)]})
    assert losses
    assert not losses.problem([{}])
    found = losses.attributed(told, journal)
    assert found["update"].tolist() == [0, 1, 2]
    assert found["fate"].tolist() == [0, Fate.LOST, 0]
    assert found["staleness"].tolist() == [0, 0, 0]
    assert not account.problem(journal, PLAN, 3, losses)
    assert losses.kept([0, 1, 2], journal, 2) == [0, 2]
    assert not account.other_order([0, 2], journal, 2)
    assert losses.attributed(told, journal[:1]) is told


UNITS = [line(Update(0, 0, 0)), line(Update(1, 0, 0), Update(0, 1, 1), fate=Fate.AGGREGATED)]
LEGS = [(0, 2, (0,)), (1, 0, (1,)), (0, 2, (1, 2))]


@pytest.mark.parametrize(
    ("journal", "sent", "came", "problem"),
    [
        (UNITS, LEGS, [(0, [0], 100), (0, [1, 2], 200)], ""),
        (UNITS, [*LEGS, (1, 2, (1,))], [(0, [1, 2], 200), (1, [1], 100)], ""),  # which was not to be, for all was there
        (UNITS, LEGS[:2], [], "iteration 0 of worker 1 counts, and nobody was to send it"),
        (UNITS, [LEGS[0], LEGS[2]], [(0, [0], 100)] * 2, "updates [0] came from node 0 to node 2 2 times, and were to"),
        (UNITS, LEGS, [(0, [2], 100)], "updates [2] came from node 0 to node 2 1 times, and were to come 0 times"),
        (UNITS, LEGS, [(1, [1], 100)], ""),  # of the lost one
        ([*UNITS, line(Update(1, 1, 0), fate=Fate.DROPPED), line(Update(1, 2, 0), fate=Fate.LOST)], LEGS, [], ""),
    ],
)
def test_after_a_loss_what_counts_was_sent_and_nothing_came_more_often_than_that(
    journal: list[Line], sent: list[Leg], came: Came, problem: str
) -> None:
    wrong = Losses({1: 1}, update_bytes=100, came=came).unsent(PLAN, journal, sent)
    assert problem in wrong
    assert bool(wrong) == bool(problem)
    assert NOBODY.unsent(PLAN, journal, []) == "", "then each transfer is looked at"
