"""What is known of a lost server's journal: the longest of the beginnings that others have heard."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.fates import Entry, Fate
from testbed.workloads.kinds.fabric.planning.takeover import Takeover
from testbed.workloads.kinds.fabric.processes.messages import Dropped, End, Joined, Order, Serve
from testbed.workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a

PLAN = mlfabric_a(build("star(hosts=5)", rate_bps=10**9), [1], aggregators=1, divergence_updates=4)
"""Two workers on nodes 0 and 1; node 2 is the server, and node 3 its replica."""
REPLICA = 3
DIRECT, DROPPED = int(Fate.DIRECT), int(Fate.DROPPED)
JOURNAL: list[Entry] = [(0, DIRECT), (1, DIRECT), (2, DROPPED), (3, DIRECT), (4, DIRECT)]


def begun(heard: int = 0) -> Takeover:
    """The server is lost, and the scheduler has heard so much of its journal."""
    takeover = Takeover(PLAN)
    takeover.told(Order((0, 1), (0, 0), (1.0, 1.0)))
    takeover.told(Dropped(2, 1))
    takeover.told(Order((3, 4), (2, 2), (1.0, 1.0)))
    takeover.told(Dropped(5, 2))
    takeover.decided(JOURNAL[:heard])
    takeover.has_begun = True
    return takeover


def test_the_longest_beginning_counts() -> None:
    takeover = begun(heard=2)
    takeover.joined(0, Joined(4, 1, tuple(JOURNAL[1:4])))
    assert takeover.is_open
    takeover.joined(REPLICA, Joined(-1, 0, tuple(JOURNAL[:3])))
    takeover.joined(1, Joined(3, 0, ()))
    assert takeover.is_complete
    assert not takeover.is_open
    assert takeover.unheard == JOURNAL[2:4]
    assert takeover.unanswered == [1], "update 3 is decided, and update 4 is not"
    serve, again = takeover.notes
    assert serve == Serve((0, 1, 3, 4), (0, 0, 2, 2), tuple(JOURNAL[:4]))
    assert again == Dropped(5, 2), "of that one nobody has heard"


def test_what_is_said_after_the_loss_does_not_count() -> None:
    takeover = begun()
    takeover.told(Order((6,), (3,), (1.0,)))
    takeover.told(End())
    takeover.decided(JOURNAL)
    for node in (*PLAN.workers, REPLICA):
        takeover.joined(node, Joined(-1, 0, ()))
    assert takeover.unheard == []
    (serve, *again) = takeover.notes
    assert serve == Serve((0, 1, 3, 4), (0, 0, 2, 2), ())
    assert again == [Dropped(2, 1), Dropped(5, 2)]


@pytest.mark.parametrize(
    ("note", "problem"),
    [
        (Joined(-1, 0, ((0, DROPPED),)), r"goes on with \[\(0, 2\)\] from 0 on, and was \[\(0, 0\)\]"),
        (Joined(-1, 1, ((3, DIRECT),)), "from 1 on, and was"),
        (Joined(-1, 3, ((3, DIRECT),)), "from 3 on, and was"),
    ],
)
def test_a_process_that_knows_another_journal_is_found_out(note: Joined, problem: str) -> None:
    takeover = begun(heard=2)
    with pytest.raises(ValueError, match=problem):
        takeover.joined(0, note)


def test_nobody_joins_before_the_loss_or_twice_or_who_has_no_part_in_it() -> None:
    early = Takeover(PLAN)
    assert not early.is_open
    takeover = begun()
    takeover.joined(0, Joined(-1, 0, ()))
    for one, node in ((early, 0), (takeover, 0), (takeover, PLAN.server)):
        with pytest.raises(ValueError, match="no server was lost, or this process has joined before"):
            one.joined(node, Joined(-1, 0, ()))


@given(
    heard=st.integers(0, len(JOURNAL)),
    known=st.tuples(*(st.integers(0, len(JOURNAL)) for _ in range(3))),
    nodes=st.permutations([*PLAN.workers, REPLICA]),
)
def test_whoever_joins_first_the_longest_counts(heard: int, known: tuple[int, int, int], nodes: list[int]) -> None:
    takeover = begun(heard)
    counts = dict(zip(nodes, known, strict=True))
    for node in nodes:
        takeover.joined(node, Joined(-1, 0, tuple(JOURNAL[: counts[node]])))
    longest = max(heard, *known)
    assert list(takeover.unheard) == JOURNAL[heard:longest]
    serve = takeover.notes[0]
    assert isinstance(serve, Serve)
    assert list(serve.entries) == JOURNAL[:longest]
    again = [note.update for note in takeover.notes[1:] if isinstance(note, Dropped)]
    assert again == [number for number in (2, 5) if number not in dict(serve.entries)]
    assert all(one < other for one, other in pairwise(again))
