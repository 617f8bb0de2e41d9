"""What a worker learns of its update, and of those of others, from a piece of the journal."""

from __future__ import annotations

import pytest

from testbed.workloads.kinds.fabric.fates import Fate, Learnt, learn

DIRECT, SUM, DROPPED, LATE, LOST = (int(fate) for fate in Fate)
ENTRIES = [(0, DIRECT), (4, DROPPED), (2, SUM), (1, SUM), (5, LATE)]
"""Of three workers: 4 and 1 are rank 1's, 5 and 2 rank 2's."""


def test_a_worker_finds_its_own_update_and_what_is_new() -> None:
    found = learn(0, 0, ENTRIES, known=2, mine=1, world=3)
    assert found == Learnt(at=3, fate=Fate.AGGREGATED, version=2, applied=[(2, 0), (1, 0)], known=5)


def test_versions_count_what_was_applied() -> None:
    assert learn(0, 0, ENTRIES, known=0, mine=5, world=3).version == 3
    assert learn(7, 4, ENTRIES, known=7, mine=4, world=3) == Learnt(8, Fate.DROPPED, 5, [(0, 0), (2, 0), (1, 0)], 12)


@pytest.mark.parametrize(
    ("begin", "known", "mine", "problem"),
    [
        (0, 3, 4, "nothing is said of update 4"),
        (2, 1, 1, "1 entries are known, and told are 2 to 7"),
        (0, 6, 1, "6 entries are known, and told are 0 to 5"),
    ],
)
def test_a_piece_that_does_not_fit_is_refused(begin: int, known: int, mine: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        learn(begin, 0, ENTRIES, known, mine, world=3)


def test_an_update_has_one_fate() -> None:
    with pytest.raises(ValueError, match="update 2 is there twice"):
        learn(0, 0, [*ENTRIES, (2, DIRECT)], known=0, mine=2, world=3)
