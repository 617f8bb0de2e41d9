"""What is told of a trial whose server was lost: the history of both, and how far the replica was behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testbed.base.errors import WorkerError
from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.plan import Fabric, Options, fabric
from testbed.workloads.kinds.fabric.replication_account import TakenOver, taken_over
from testbed.workloads.learning.updates import Step, Update

DIRECT, SUM, DROPPED, LATE, _ = (int(fate) for fate in Fate)
ALONE = [[1.0, 1.0]]
BOTH = [[1.0, 1.0], [1.0, 1.0]]
ONE_BY_ONE = [[DIRECT, [0], [0], ALONE], [DIRECT, [1], [0], ALONE], [DIRECT, [2], [1], ALONE]]
"""What the server did, of two workers: its last step nobody has heard of."""
COPIED = [[DIRECT, [0], [0], ALONE], [SUM, [1, 2], [0, 1], BOTH], [DIRECT, [3], [3], ALONE]]
"""The replica's: its first step while the server served, and then the sum of one that was decided and one that was not;
and one of its own."""
HEARD = 2
NORMS = {0: 4.0, 1: 2.0, 2: 1.0}


def plan(**options: Any) -> Fabric:
    return fabric(build("star(hosts=5)", rate_bps=10**8), "mlfabric_a", Options(**options), 0)


def told(
    server: list[list[Any]] = ONE_BY_ONE,
    copied: list[list[Any]] = COPIED,
    *,
    leads: tuple[int, ...] = (0, 1, 2),
    had: int = 3,
    own_from: int = 1,
    heard: int = HEARD,
    firsts: tuple[tuple[int, int], ...] = ((0, 2), (1, 1)),
    bound: float = 3.5,
    momentum: float = 0.0,
) -> TakenOver:
    steps = [
        {"step": step, "lead": lead, "norms": [NORMS[number] for number in step[1]], "momentum": momentum}
        for step, lead in zip(server, leads, strict=True)
    ]
    replica = {"name": "h3", "copied": copied, "served": [own_from, heard, [list(one) for one in firsts]], "had": had}
    found = taken_over(plan(divergence_bound=bound), [*steps, replica])
    assert found is not None
    return found


def test_a_replica_that_did_not_serve_took_nothing_over() -> None:
    assert taken_over(plan(divergence_bound=1.0), [{"copied": COPIED}, {"step": ONE_BY_ONE[0]}]) is None


def test_the_journal_is_what_was_heard_of_the_server_and_then_the_replicas() -> None:
    journal = [(fate, numbers, versions) for fate, numbers, versions, _ in told().server["journal"]]
    assert journal == [(DIRECT, [0], [0]), (DIRECT, [1], [0]), (SUM, [2], [1]), (DIRECT, [3], [3])]


def test_steps_say_whose_they_are_and_on_whose_weights_updates_were_computed() -> None:
    former = [Update(0, 0, 0), Update(1, 0, 0), Update(0, 1, 1)]
    on_former = [replace(one, on_former=True) for one in former]
    one = ((1.0, 1.0),)
    assert told().steps == [
        *(Step((update,), one, by="former") for update in on_former[:1]),
        Step((on_former[0],), one, by="replica"),
        *(Step((update,), one, by="former") for update in on_former[1:]),
        Step((on_former[1], on_former[2]), one * 2, is_sum=True),
        Step((Update(1, 1, 3),), one),
    ]


def test_samples_tell_of_the_steps_of_the_history_that_goes_on() -> None:
    found = told().replicated
    assert found.behind == {(0, 0): (1, 4.0), (1, 0): (1, 2.0)}
    assert found.metrics["divergence_max"] == 4.0
    assert found.metrics["divergence_breaches"] == 1
    unheard = told(leads=(0, 1, 1), bound=9.0).replicated
    assert unheard.behind == found.behind
    assert unheard.metrics["replica_behind_max"] == 2


def test_what_the_replica_lacked_is_what_it_had_not_applied() -> None:
    found = told()
    metrics = found.replicated.metrics
    assert metrics["takeover_behind"] == 2
    assert metrics["takeover_lost"] == 0
    assert metrics["takeover_bound"] == found.most_apart == 2.0 + 1.0
    assert told(copied=ONE_BY_ONE, momentum=0.5, bound=9.0).most_apart == (0.5 * 4 + 2) + (0.5 * (0.5 * 4 + 2) + 1)


def test_updates_that_nobody_has_applied_are_lost() -> None:
    found = told(copied=[COPIED[0], [DIRECT, [1], [0], ALONE]])
    assert found.replicated.metrics["takeover_lost"] == 1
    assert found.lost == [Update(0, 1, 1)]
    assert told().lost == []


def test_the_bound_is_on_what_the_replica_had_not_got() -> None:
    assert told(bound=2.5).most_apart == 3.0  # all was there, and two updates of it were not applied yet
    told(leads=(0, 1, 1), had=2, bound=0.5)  # a single one may be beyond it
    with pytest.raises(WorkerError, match="the server was 2 updates and 3 ahead of its replica"):
        told(leads=(0, 1, 1), had=1, bound=2.5)


def test_updates_that_came_too_late_are_in_the_order_and_change_nothing() -> None:
    server = [*ONE_BY_ONE[:1], [LATE, [1], [0], ALONE], ONE_BY_ONE[2]]
    copied = [COPIED[0], [LATE, [1], [0], ALONE], [DIRECT, [2], [1], ALONE]]
    assert told(server, copied, own_from=2, had=2).most_apart == 1.0


def test_a_replica_has_what_the_server_counted_on() -> None:
    with pytest.raises(WorkerError, match="the replica had 1 updates when the server was lost, which counted on 2"):
        told(had=1)


def test_a_history_that_the_replica_does_not_share_is_refused() -> None:
    with pytest.raises(WorkerError, match="update 1 was"):
        told(copied=[COPIED[0], [DIRECT, [2], [1], ALONE], [DIRECT, [1], [0], ALONE]])
    with pytest.raises(WorkerError, match="goes on after 4 entries of a journal with 3"):
        told(heard=4)


def test_workers_that_the_replica_gave_nothing_have_the_servers_weights() -> None:
    assert told().ended_before == frozenset()
    assert told(firsts=((1, 1),)).ended_before == {0}
    assert told(firsts=()).ended_before == {0, 1}
