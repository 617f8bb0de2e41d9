"""How stale an update can be: the formula against a schedule that gets there."""

from __future__ import annotations

import pytest

from testbed.analysis.papers.mlfabric_theory import reached, stale_synchronous
from testbed.workloads.kinds.asynchronous.ledger import most_stale


@pytest.mark.parametrize("world", [2, 3, 7])
@pytest.mark.parametrize("bound", [0, 1, 2, 5])
def test_the_bound_is_reached(world: int, bound: int) -> None:
    assert reached(world, bound) == most_stale(world, bound)


def test_the_papers_bound_is_exceeded() -> None:
    table = stale_synchronous()
    for _, workers, paper, derived, found in table.rows:
        assert derived == found
        if paper != "-":
            assert int(paper) == 2 * int(workers)
            assert int(found) > int(paper) or workers == "2"
