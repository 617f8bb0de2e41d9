"""What a scheduler gathers of a lost server's journal, from pieces that its processes know."""

from __future__ import annotations

from itertools import permutations

import pytest

from topologies.build import build
from workloads.kinds.fabric.fates import Fate
from workloads.kinds.fabric.plan import Fabric, Options, fabric
from workloads.kinds.fabric.planning.takeover import Takeover
from workloads.kinds.fabric.processes.messages import Dropped, Joined, Order, Serve

DIRECT, LATE = int(Fate.DIRECT), int(Fate.LATE)
JOURNAL = ((0, DIRECT), (1, LATE), (3, DIRECT), (2, DIRECT))
"""Of two workers: 0 and 2 are rank 0's."""
PLAN: Fabric = fabric(build("star(hosts=5)", rate_bps=10**8), "mlfabric_a", Options(divergence_updates=3), 1)
"""Workers h0 and h1, server h2, replica h3, scheduler h4."""
ORDER = Order((0, 1, 3, 2), (0, 0, 1, 2), (1.0,) * 4)


def begun(decided: int = 1) -> Takeover:
    """The server was told an order and to drop update 4, and has told what became of some; then it was lost."""
    found = Takeover(PLAN)
    found.told(ORDER)
    found.told(Dropped(4, 2))
    found.decided(JOURNAL[:decided])
    found.has_begun = True
    return found


def piece(begin: int, end: int, unanswered: int = -1) -> Joined:
    return Joined(unanswered, begin, JOURNAL[begin:end])


def test_it_is_complete_once_workers_and_replica_have_joined() -> None:
    found = begun()
    assert (found.is_open, found.is_complete) == (True, False)
    for node in (0, 3, 1):
        assert found.is_open
        found.joined(node, piece(0, 1))
    assert (found.is_open, found.is_complete) == (False, True)


@pytest.mark.parametrize("nodes", list(permutations((0, 1, 3))))
def test_the_longest_piece_counts_whoever_knows_it(nodes: tuple[int, ...]) -> None:
    found = begun()
    for node, end in zip(nodes, (3, 2, 4), strict=True):
        found.joined(node, piece(1, end))
    assert list(found.unheard) == list(JOURNAL[1:])
    serve, dropped = found.notes
    assert serve == Serve(ORDER.updates, ORDER.versions, JOURNAL)
    assert dropped == Dropped(4, 2)


def test_what_is_told_later_is_nobodys_any_more() -> None:
    found = begun()
    found.told(Order((5,), (2,), (1.0,)))
    found.decided(JOURNAL[1:])
    assert list(found.unheard) == []
    (serve, _) = found.notes
    assert serve == Serve(ORDER.updates, ORDER.versions, JOURNAL[:1])


def test_a_drop_that_the_server_has_made_is_not_told_again() -> None:
    found = begun()
    found.joined(3, Joined(-1, 1, (*JOURNAL[1:], (4, int(Fate.DROPPED)))))
    assert [type(one) for one in found.notes] == [Serve]


def test_workers_wait_for_an_answer_if_it_is_known_what_became_of_their_updates() -> None:
    found = begun()
    found.joined(0, piece(0, 1, unanswered=2))
    assert found.unanswered == []  # nobody knows of update 2
    found.joined(1, piece(0, 1, unanswered=3))
    found.joined(3, piece(0, 3))
    assert found.unanswered == [1]


def test_pieces_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="no server was lost"):
        Takeover(PLAN).joined(0, piece(0, 1))
    found = begun()
    found.joined(0, piece(0, 1))
    with pytest.raises(ValueError, match="has joined before"):
        found.joined(0, piece(0, 1))
    with pytest.raises(ValueError, match="goes on with"):
        found.joined(1, piece(2, 3))  # nobody knows the second entry
    with pytest.raises(ValueError, match="goes on with"):
        begun().joined(1, Joined(-1, 0, ((1, DIRECT),)))
    with pytest.raises(ValueError, match="has joined before"):
        begun().joined(2, piece(0, 1))  # the server itself
