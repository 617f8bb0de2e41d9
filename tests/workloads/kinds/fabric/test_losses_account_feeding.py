"""What is told of a replica that its server has fed: what it had made before, and since, is held against the server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.fates import Fate, lines
from testbed.workloads.kinds.fabric.losses_account import Feeding
from testbed.workloads.kinds.fabric.replication_account import counted, other
from testbed.workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a

DIRECT, SUM, DROPPED, *_ = (int(fate) for fate in Fate)
ALONE = [[1.0, 1.0]]
TWO = [*ALONE, *ALONE]
PLAN = mlfabric_a(build("star(hosts=5)", rate_bps=10**9), [1], aggregators=1, divergence_updates=4)
"""Two workers on nodes 0 and 1; node 2 is the server, and node 3 its replica."""
SERVER, REPLICA = 2, 3
JOURNAL = [
    [SUM, [0, 1], [0, 0], TWO],
    [DROPPED, [2], [1], ALONE],
    [DIRECT, [3], [2], ALONE],
    [DIRECT, [4], [2], ALONE],
    [DIRECT, [6], [4], ALONE],
]
FEEDING = Feeding([(1, 3), (2, 4)], 200, [(0, [0], 100), (1, [0, 1], 200), (SERVER, [4], 100), (SERVER, [6], 100)])
"""Two processes were lost: one when the server had made three steps, and one when it had made four."""
COPIED = [[DIRECT, [0], [0], ALONE], [DIRECT, [4], [2], ALONE], [DIRECT, [6], [4], ALONE]]


def wrong(feeding: Feeding = FEEDING, copied: list[Any] = COPIED) -> str:
    journal = lines(JOURNAL, 2)
    whole, found = feeding.whole(journal, lines(copied, 2), 0.0)
    return found or other(counted(journal, 0.0), counted(whole, 0.0))


def test_snapshots_stand_for_what_the_server_had_made() -> None:
    assert wrong() == ""
    assert wrong(Feeding.told([{"copied": COPIED}])), "without them, the replica lacks updates"
    told = {"snapshots": [[1, 3], [2, 4]], "snapshot_bytes": 200, "came": FEEDING.came}
    assert Feeding.told([{"journal": JOURNAL}, told]) == FEEDING


@pytest.mark.parametrize(
    ("feeding", "copied", "problem"),
    [
        (replace(FEEDING, snapshots=[(1, 3), (2, 3)]), COPIED, "update 3 was None"),
        (replace(FEEDING, snapshots=[(1, 3), (2, 5)]), COPIED, "update 5 was None to the server"),
        (replace(FEEDING, snapshots=[(1, 3), (4, 4)]), COPIED, "a state after 4 lines of 3"),
        (replace(FEEDING, snapshots=[(1, 6)]), COPIED, "6 of 5 at the server"),
        (FEEDING, [[DIRECT, [1], [0], ALONE], *COPIED[1:]], "update 0 was"),
        (FEEDING, [COPIED[0], [DIRECT, [6], [4], ALONE], COPIED[2]], "update 3 was"),
        (FEEDING, COPIED[:2], "update 4 was"),
        (FEEDING, [*COPIED, [DIRECT, [8], [5], ALONE]], "update 5 was None to the server"),
        (FEEDING, [[DIRECT, [0], [0], [[0.5, 0.5]]], *COPIED[1:]], "counted 1.0 at the server, and 0.5"),
    ],
)
def test_a_replica_that_has_done_something_else_is_found_out(feeding: Feeding, copied: list[Any], problem: str) -> None:
    assert problem in wrong(feeding, copied)


def test_snapshots_and_what_the_server_sent_count_in_the_bytes() -> None:
    fed = [(SERVER, REPLICA, 100)] * 2 + [(SERVER, REPLICA, 200)] * 2
    assert FEEDING.fed(PLAN) == fed
    from_daemons = [(0, REPLICA, 100), (1, REPLICA, 200), (0, 1, 100)]
    assert FEEDING.moved(PLAN, 100) == fed + from_daemons
    assert Feeding().moved(PLAN.unreplicated, 100) == []
