"""Accounts of workers, server and scheduler that do not fit together are found out."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from testbed.base.errors import WorkerError
from testbed.topologies.build import build as build_topology
from testbed.workloads.kinds.fabric.account import Moved, carried, misplaced, timed, told
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.losses_account import Losses
from testbed.workloads.kinds.fabric.measures import ScheduledMeasures
from testbed.workloads.kinds.fabric.plan import Fabric, Options, fabric
from testbed.workloads.kinds.transfers import Carried, Purpose
from testbed.workloads.learning.updates import Step, Update

DIRECT, SUM, DROPPED, LATE, LOST = (int(fate) for fate in Fate)
ALONE = [[1.0, 1.0]]
JOURNAL = [
    [DIRECT, [0], [0], ALONE],
    [DROPPED, [2], [1], ALONE],
    [SUM, [1, 4], [0, 1], [[1.5, 0.5], [1.0, 1.0]]],
    [DIRECT, [3], [3], ALONE],
]
"""Of two workers, three updates each, of which one is of the other's: 0, 2, 4 are rank 0's, and 1, 3 rank 1's."""
TRANSFERS = [
    [0, 2, 100.0, [0], 0, 0.0, 1.0, 1.0],
    [1, 0, 100.0, [1], 0, 0.0, 1.0, 1.1],
    [0, 2, 100.0, [1, 4], 0, 1.0, 2.0, 2.0],
    [1, 2, 100.0, [3], 0, 2.0, 3.0, 3.0],
    *([2, node, 100.0, [], 0, 3.0, 4.0, 4.5] for node in (0, 0, 1, 0, 1)),
]
RECEIVED = [[0, 100], [1, 100], [3, 100]]
CLOCK = {"time": 100.0, "clock_s": 100.0, "plans_s": [0.001, 0.003, 0.002]}


def plan(servers: int = 1, **options: Any) -> Fabric:
    topology = build_topology(f"star(hosts={3 + servers})", rate_bps=10**8)
    return fabric(topology, "mlfabric_a", Options(**options), 1, servers=servers)


def samples(journal: list[list[Any]]) -> pd.DataFrame:
    entries = [(fate, n, v) for fate, numbers, versions, _ in journal for n, v in zip(numbers, versions, strict=True)]
    rows = [
        {
            "rank": number % 2,
            "iteration": number // 2,
            "update": at,
            "version": version,
            "fate": fate,
            "held_s": 0.0,
            "ready_s": 0.5,
        }
        for at, (fate, number, version) in enumerate(entries)
    ]
    return pd.DataFrame(rows).assign(end_s=lambda frame: frame["update"] + 1.0)


def account(journal: list[list[Any]] = JOURNAL, **changes: Any) -> Any:
    scheduler = {"transfers": TRANSFERS, "order": [0, 1, 4, 3]} | CLOCK | changes
    server = {"update_bytes": 100, "received": RECEIVED}
    others = [{"journal": one, **server} for one in changes.pop("others", [])]
    done = [{"journal": journal, **server}, *others, scheduler, {}]
    return told(changes.pop("plan", plan()), changes.pop("samples", samples(journal)), done, 1)


@pytest.fixture(autouse=True)
def five(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the trial had five updates: iterations times workers cannot be odd, and a short journal is readable."""
    from testbed.workloads.kinds.fabric import account as module

    right = module.problem
    monkeypatch.setattr(module, "problem", lambda journal, plan, _updates, *rest: right(journal, plan, 5, *rest))


def test_the_order_of_updates_is_the_journals() -> None:
    found = account()
    assert found.order == [
        Step((Update(0, 0, 0),)),
        Step((Update(0, 1, 1),), is_dropped=True),
        Step((Update(1, 0, 0), Update(0, 2, 1)), ((1.5, 0.5), (1.0, 1.0)), is_sum=True),
        Step((Update(1, 1, 3),)),
    ]
    assert found.moved == [(0, 2, 200.0), (1, 0, 100.0), (1, 2, 100.0), (2, 0, 300.0), (2, 1, 200.0)]


def test_samples_tell_when_updates_were_to_be_there_and_when_they_were() -> None:
    found = account().samples.set_index("update")
    assert found["planned_s"].tolist()[0] == 0.5
    assert found["arrived_s"].tolist()[2:] == [1.5, 1.5, 2.5]
    assert math.isnan(found["planned_s"][1])


@pytest.mark.parametrize(
    ("arrived_s", "seen_s"), [([None], math.nan), ([None, 2.0], 1.5), ([2.0, None], 1.5), ([0.0], -0.5), ([], math.nan)]
)
def test_an_update_was_there_when_its_last_known_transfer_was(arrived_s: list[float | None], seen_s: float) -> None:
    """After a loss nobody tells of some transfers. A moment may be 0."""
    transfers = [Moved(0, 2, 100.0, [0], 0, 0.0, 1.0, one) for one in arrived_s]
    found = timed(samples(JOURNAL[:1]), transfers, plan())
    assert found["arrived_s"].tolist() == pytest.approx([seen_s], nan_ok=True)
    assert found["planned_s"].tolist() == pytest.approx([0.5 if arrived_s else math.nan], nan_ok=True)


def test_each_transfer_is_told_with_plan_and_reality() -> None:
    found = account()
    assert found.transfers[:4] == [
        Carried(0, 2, Purpose.UPDATE, 1, 100.0, 0.0, 1.0, 1.0),
        Carried(1, 0, Purpose.UPDATE, 1, 100.0, 0.0, 1.0, 1.1),
        Carried(0, 2, Purpose.SUM, 2, 100.0, 1.0, 2.0, 2.0),
        Carried(1, 2, Purpose.UPDATE, 1, 100.0, 2.0, 3.0, 3.0),
    ]
    assert {one[2:] for one in found.transfers[4:]} == {(Purpose.WEIGHTS, 0, 100.0, 3.0, 4.0, 4.5, 0)}
    assert found.metrics == {"scheduler_median_s": 0.002, "scheduler_p99_s": pytest.approx(0.00298)}


def test_a_sum_of_one_update_is_a_sum() -> None:
    (own, other) = carried([Moved(node, 2, 9.0, [4], node, 0.0, 1.0, 1.0) for node in (0, 1)], plan())
    assert (own.shard, other.shard) == (0, 1)
    assert (own.purpose, other.purpose) == (Purpose.UPDATE, Purpose.SUM)


def test_moments_of_a_scheduler_whose_clock_is_another_are_those_of_the_samples() -> None:
    ours = account(clock_s=CLOCK["clock_s"] + 7)
    assert [one.start_s + 7 for one in ours.transfers] == [start_s for *_, start_s, _, _ in TRANSFERS]
    assert [one.arrived_s is None for one in ours.transfers] == [moment_s is None for *_, moment_s in TRANSFERS]
    moments = ours.samples.set_index("update")
    assert moments["planned_s"].tolist()[0] == 0.5 - 7
    assert moments["arrived_s"].tolist()[0] == 0.5 - 7


@pytest.mark.parametrize(
    ("journal", "problem"),
    [
        (JOURNAL[:-1], "what became of 4 updates, of 5"),
        ([*JOURNAL[:3], [DIRECT, [3], [3], []]], "of 1 updates a process tells what 0 count"),
        ([*JOURNAL[:3], [DIRECT, [1], [3], ALONE]], "iteration 0 of worker 1 comes after 1 others"),
        ([*JOURNAL[:3], [DIRECT, [3], [2], ALONE]], "computed on version 2, which it was not given"),
        ([*JOURNAL[:3], [DIRECT, [3], [4], ALONE]], "computed on version 4, which it was not given"),
    ],
)
def test_a_journal_that_cannot_be_is_refused(journal: list[list[Any]], problem: str) -> None:
    with pytest.raises(WorkerError, match=problem):
        account(journal)


def test_servers_that_decided_something_else_are_found_out() -> None:
    assert account(others=[JOURNAL, JOURNAL], plan=plan(servers=3)).order == account().order
    late = [*JOURNAL[:3], [LATE, [3], [3], ALONE]]
    with pytest.raises(WorkerError, match=r"line 3 of the journals is .* at the first server, and .* at server 2"):
        account(others=[JOURNAL, late])
    with pytest.raises(WorkerError, match=r"line 3 .* and None at server 1"):
        account(others=[JOURNAL[:3]])
    swapped = [JOURNAL[1], JOURNAL[0], *JOURNAL[2:]]
    with pytest.raises(WorkerError, match="line 0 of the journals"):
        account(others=[swapped])


def test_a_shard_that_goes_twice_is_found_out() -> None:
    second = [[*(3 if node == 2 else node for node in row[:2]), *row[2:4], 1, *row[5:]] for row in TRANSFERS]
    given: dict[str, Any] = {"others": [JOURNAL], "plan": plan(servers=2)}
    found = account(transfers=[*TRANSFERS, *second], **given)
    assert found.samples["arrived_s"].equals(account().samples["arrived_s"])
    with pytest.raises(WorkerError, match="went twice from node 0 to node 3"):
        account(transfers=[*TRANSFERS, *second, second[0]], **given)
    smaller = [[*second[0][:2], 50.0, *second[0][3:]], *second[1:]]
    with pytest.raises(WorkerError, match="as 50 bytes, not 100"):
        account(transfers=[*TRANSFERS, *smaller], **given)


def test_what_is_beyond_the_delay_bound_must_not_be_applied() -> None:
    with pytest.raises(WorkerError, match="iteration 0 of worker 1 missed 1 updates, and was applied"):
        account(plan=plan(delay_bound=1))
    assert account(plan=plan(delay_bound=2))


@pytest.mark.parametrize(("column", "value"), [("version", 2), ("fate", LATE), ("iteration", 5), ("rank", 0)])
def test_a_worker_that_tells_another_story_is_found_out(column: str, value: int) -> None:
    other = samples(JOURNAL)
    other.loc[4, column] = value
    with pytest.raises(WorkerError, match=r"update 4 is .* to the server, and .* to worker"):
        account(samples=other)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"transfers": [*TRANSFERS, [1, 2, 100.0, [3], 0, 2.0, 3.0, None]]}, "which does not know of them"),
        ({"transfers": [*TRANSFERS, [2, 1, 100.0, [], 0, 2.0, 3.0, None]]}, "weights were sent from node 2 to node 1"),
        ({"transfers": [*TRANSFERS, TRANSFERS[0]]}, "went twice from node 0 to node 2"),
        ({"transfers": [[0, 2, 99.0, [0], 0, 0.0, 1.0, 1.0], *TRANSFERS[1:]]}, r"\[0\] went .* as 99 bytes, not 100"),
        ({"transfers": [*TRANSFERS[:-1], [2, 1, 50.0, [], 0, 3.0, 4.0, 4.5]]}, "weights went .* as 50 bytes, not 100"),
        ({"transfers": [TRANSFERS[0], [1, 0, 200.0, *TRANSFERS[1][3:]], *TRANSFERS[2:]]}, "as 200 bytes, not 100"),
        ({"transfers": [*TRANSFERS[:2], [0, 2, 200.0, *TRANSFERS[2][3:]], *TRANSFERS[3:]]}, "as 200 bytes, not 100"),
        ({"order": [0, 4, 1, 3]}, "update 4 was to be number 1, and the server had 1"),
        ({"order": [0, 1, 4]}, "3 updates were planned, and 4 came"),
    ],
)
def test_the_scheduler_and_the_others_must_agree(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(WorkerError, match=problem):
        account(**changes)


def test_who_is_lost_when_all_is_done_and_has_told_nothing_is_named() -> None:
    with pytest.raises(WorkerError, match="the server on h2 was lost when all was done"):
        told(plan(), samples(JOURNAL), [{"transfers": TRANSFERS, "order": [0, 1, 4, 3]} | CLOCK], 1)
    server = {"update_bytes": 100, "received": RECEIVED, "journal": JOURNAL}
    with pytest.raises(WorkerError, match="the scheduler was lost when all was done"):
        told(plan(), samples(JOURNAL), [server], 1)


def test_a_replica_that_is_lost_when_all_is_done_is_not_missed() -> None:
    known = {"leads": [0, 0, 1, 3], "norms": [[number, 1.0] for number in range(5)], "momentum": 0.0}
    server = {"update_bytes": 100, "received": RECEIVED, "journal": JOURNAL} | known
    scheduler = {"transfers": TRANSFERS, "order": [0, 1, 4, 3]} | CLOCK
    topology = build_topology("star(hosts=5)", rate_bps=10**8)
    replicated = fabric(topology, "mlfabric_a", Options(divergence_bound=9.0), 1)
    found = told(replicated, samples(JOURNAL), [server, scheduler], 1)
    assert found.samples["behind"].tolist()[:1] == [1.0]
    assert "replica_error" not in found.metrics


def test_after_a_loss_transfers_may_lack_or_go_twice_and_must_have_their_bytes() -> None:
    """Update 1 was to come in a sum with 4, and came straight, too."""
    again, unknown = [1, 2, 100.0, [1], 0, 2.0, 3.0, 3.5], [0, 2, 7.0, [4], 0, 2.0, 3.0, None]
    lost = Losses({0: 3})

    def wrong(*more: list[Any], sum_bytes: int = 200, losses: Losses = lost) -> str:
        done = [{"journal": JOURNAL, "update_bytes": 100, "received": [[0, 100], [1, sum_bytes], [3, 100], [1, 100]]}]
        rows = [*TRANSFERS[:2], [0, 2, 200.0, *TRANSFERS[2][3:]], *TRANSFERS[3:], *more]
        return misplaced([Moved(*row) for row in rows], plan(), done, losses)

    assert wrong(again, again, unknown) == ""
    assert "went twice" in wrong(again, again, losses=Losses({}))
    assert "does not know of them" in wrong(unknown, losses=Losses({}))
    assert "updates [1, 4] went from node 0 to node 2 as 200 bytes, not 100" in wrong(again, sum_bytes=100)
    more = wrong([*again[:2], 300.0, *again[3:]])
    assert "updates [1] went from node 1 to node 2 as 300 bytes, not 100 or 200" in more
    assert "weights went from node 2 to node 1 as 50 bytes" in wrong([2, 1, 50.0, [], 0, 3.0, 4.0, 4.5])


@pytest.mark.parametrize(("planned", "came"), [(200.0, 200), (200.0, 100), (100.0, 200)])
def test_a_workers_host_may_send_a_sum_of_the_workers_update_alone(planned: float, came: int) -> None:
    """With momentum it has two sums, like every other."""
    done = [{"journal": JOURNAL, "update_bytes": 100, "received": [[1, came]]}]
    wrong = misplaced([Moved(1, 2, planned, [1], 0, 2.0, 3.0, 3.5)], plan(), done)
    assert wrong == (
        "" if planned == came else f"updates [1] went from node 1 to node 2 as {planned:g} bytes, not {came}"
    )


def test_rounds_count_what_was_applied() -> None:
    found = ScheduledMeasures().rounds(samples(JOURNAL))
    assert found["iteration"].tolist() == [0, 0, 0, 1, 1]
    stale = samples(JOURNAL).assign(staleness=[0, 9, 1, 1, 0])
    assert ScheduledMeasures().staleness(stale).tolist() == [0, 1, 1, 0]
