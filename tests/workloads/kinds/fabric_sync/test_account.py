"""Each sum of a synchronous trial has each worker's gradient once, or the trial is refused."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from testbed.base.errors import SchemeError, WorkerError
from testbed.topologies.build import build as build_topology
from testbed.workloads import kinds
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric_sync.account import told
from testbed.workloads.kinds.fabric_sync.plan import Synchronous
from testbed.workloads.kinds.transfers import Purpose
from testbed.workloads.sync.schemes import build_plan

DIRECT, SUM, LATE = int(Fate.DIRECT), int(Fate.AGGREGATED), int(Fate.LATE)
ALONE = [[1.0, 0.0]]
JOURNAL = [[DIRECT, [1], [0], ALONE], [DIRECT, [0], [0], ALONE], [SUM, [2, 3], [2, 2], [*ALONE, *ALONE]]]
"""Two sums of two workers."""
TRANSFERS = [
    [0, 2, 100.0, [0], 0, 0.0, 1.0, 1.0],
    [1, 2, 100.0, [1], 0, 1.0, 2.0, 2.0],
    [2, 0, 100.0, [], 0, 2.0, 3.0, 3.0],
]
RECEIVED = {"update_bytes": 100, "received": [[0, 100], [1, 100]]}


def plan(scheme: str = "mlfabric_s") -> Synchronous:
    built = build_plan(scheme, build_topology("star(hosts=4)", rate_bps=10**8), [])
    made = kinds.drawn(built, SEED)
    assert isinstance(made, Synchronous)
    return made


def account(journal: list[Any] = JOURNAL, transfers: list[Any] = TRANSFERS) -> Any:
    scheduler = {"order": [1, 0, 2, 3], "transfers": transfers, "time": 8.0, "clock_s": 8.0, "plans_s": [0.001, 0.002]}
    return told(plan(), pd.DataFrame(), [{"journal": journal} | RECEIVED, scheduler, {}], 2)


def test_bytes_of_a_synchronisation_are_those_of_the_transfers() -> None:
    found = account()
    assert found.moved == [(0, 2, 50.0), (1, 2, 50.0), (2, 0, 50.0)]
    assert found.order is None
    topology = build_topology("star(hosts=4)", rate_bps=10**8)
    cost = kinds.of(plan()).cost_as_run(plan(), topology, 100.0, found)
    assert (cost.wire_bytes, cost.moved) == (150.0, True)
    assert cost.bound_s() == pytest.approx(3 * 8 * 100 / 10**8), "one gradient there, and the sum to two"


def test_transfers_and_the_schedulers_time_are_told() -> None:
    found = account()
    assert [one.purpose for one in found.transfers] == [Purpose.UPDATE, Purpose.UPDATE, Purpose.WEIGHTS]
    assert [one.arrived_s for one in found.transfers] == [1.0, 2.0, 3.0]
    assert found.metrics["scheduler_median_s"] == 0.0015


@pytest.mark.parametrize(
    ("journal", "problem"),
    [
        (JOURNAL[:2], "2 gradients were added, of 4"),
        ([*JOURNAL[:2], [LATE, [2, 3], [2, 2], [*ALONE, *ALONE]]], "2 gradients were added, of 4"),
        ([JOURNAL[0], JOURNAL[0], JOURNAL[2]], "sum 0 is of"),
        ([JOURNAL[0], JOURNAL[2], JOURNAL[1]], "sum 0 is of"),
    ],
)
def test_a_sum_that_lacks_a_gradient_is_refused(journal: list[Any], problem: str) -> None:
    with pytest.raises(WorkerError, match=problem):
        account(journal)


def test_a_transfer_that_did_not_arrive_is_refused() -> None:
    with pytest.raises(WorkerError, match="which does not know of them"):
        account(transfers=[*TRANSFERS, [0, 2, 100.0, [2], 0, 3.0, 4.0, None]])


ROOTED = "mlfabric_s(root=random)"
SEED = 2


def test_roots_are_drawn_by_the_seed_of_the_experiment() -> None:
    draws = [[kinds.drawn(plan(ROOTED), seed).servers_at(one) for one in range(20)] for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert {root for draw in draws for root in draw} == {(0,), (1,), (2,)}
    assert kinds.drawn(plan(ROOTED), 3).server == kinds.drawn(plan(ROOTED), 3).servers_at(0)[0]
    assert kinds.drawn(plan(), 1) == plan(), "a server is not drawn"


def of_roots(journals: dict[int, list[Any]]) -> Any:
    """The account of one sum of three workers, of which 2 is the root."""
    transfers: list[Any] = [[node, 2, 100.0, [node], 0, node, node + 1.0, node + 1.0] for node in (0, 1)]
    transfers += [[2, node, 100.0, [], 0, 2.0, 3.0, 3.0] for node in (0, 1)]
    scheduler = {"order": [2, 0, 1], "transfers": transfers, "time": 8.0, "clock_s": 8.0, "plans_s": [0.001]}
    received = [[0, 100], [1, 100], [2, 100]]
    told_by = [
        {"update_bytes": 100, "received": received if node in journals else [], "journal": journals.get(node, [])}
        for node in range(3)
    ]
    return told(plan(ROOTED), pd.DataFrame(), [*told_by, scheduler], 1)


ONE_SUM = [[DIRECT, [number], [0], ALONE] for number in (2, 0, 1)]


def test_each_root_tells_of_its_own_sums() -> None:
    assert plan(ROOTED).servers_at(0) == (2,)
    assert of_roots({2: ONE_SUM}).moved == [(0, 2, 100.0), (1, 2, 100.0), (2, 0, 100.0), (2, 1, 100.0)]


@pytest.mark.parametrize(
    ("journals", "problem"),
    [
        ({0: ONE_SUM}, "h0 made sum 0, whose root is another"),
        ({}, "0 gradients were added, of 3"),
        ({2: [ONE_SUM[0], ONE_SUM[2], ONE_SUM[1]]}, "update 0 was to be number 1"),
        ({1: ONE_SUM, 2: ONE_SUM}, "h1 made sum 0, whose root is another"),
    ],
)
def test_what_a_root_cannot_have_made_is_refused(journals: dict[int, list[Any]], problem: str) -> None:
    with pytest.raises(WorkerError, match=problem):
        of_roots(journals)


def test_a_plan_with_a_server_says_nothing_of_roots() -> None:
    assert "root" not in json.loads(str(kinds.of(plan()).encode(plan())["fabric"]))["options"]
    assert "root" not in kinds.of(plan()).to_json(plan())


@pytest.mark.parametrize("scheme", ["mlfabric_s", ROOTED])
def test_a_plan_comes_back_from_its_file_as_what_it_was(tmp_path: Any, scheme: str) -> None:
    kinds.save(plan(scheme), tmp_path / "plan")
    again = kinds.load(tmp_path / "plan")
    assert again == plan(scheme)
    assert (again.kind, kinds.of(again).name) == ("fabric_sync", "fabric_sync")


def test_too_many_aggregators_are_refused() -> None:
    with pytest.raises(SchemeError, match="mlfabric_s has 3 aggregators for 2 workers"):
        build_plan("mlfabric_s(aggregators=3)", build_topology("star(hosts=4)", rate_bps=10**8), [])
