"""Each sum of a synchronous trial has each worker's gradient once, or the trial is refused."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from testbed.base.errors import SchemeError, WorkerError
from topologies.build import build as build_topology
from workloads import kinds
from workloads.kinds.fabric.fates import Fate
from workloads.kinds.fabric_sync.account import told
from workloads.kinds.fabric_sync.plan import Synchronous
from workloads.kinds.transfers import Purpose
from workloads.sync.schemes import build_plan

DIRECT, SUM, LATE = int(Fate.DIRECT), int(Fate.AGGREGATED), int(Fate.LATE)
ALONE = [[1.0, 0.0]]
JOURNAL = [[DIRECT, [1], [0], ALONE], [DIRECT, [0], [0], ALONE], [SUM, [2, 3], [2, 2], [*ALONE, *ALONE]]]
"""Two sums of two workers."""
TRANSFERS = [[0, 2, 100.0, [0], 0.0, 1.0, 1.0], [1, 2, 100.0, [1], 1.0, 2.0, 2.0], [2, 0, 50.0, [], 2.0, 3.0, 3.0]]


def plan() -> Synchronous:
    made = build_plan("mlfabric_s", build_topology("star(hosts=4)", rate_bps=10**8), [])
    assert isinstance(made, Synchronous)
    return made


def account(journal: list[Any] = JOURNAL, transfers: list[Any] = TRANSFERS) -> Any:
    scheduler = {"order": [1, 0, 2, 3], "transfers": transfers, "time": 8.0, "clock_s": 8.0, "plans_s": [0.001, 0.002]}
    return told(plan(), pd.DataFrame(), [{"journal": journal}, scheduler, {}], 2)


def test_bytes_of_a_synchronisation_are_those_of_the_transfers() -> None:
    found = account()
    assert found.moved == [(0, 2, 50.0), (1, 2, 50.0), (2, 0, 25.0)]
    assert found.order is None
    topology = build_topology("star(hosts=4)", rate_bps=10**8)
    cost = kinds.of(plan()).cost_as_run(plan(), topology, 100.0, found)
    assert (cost.wire_bytes, cost.moved) == (125.0, True)
    assert cost.bound_s() == pytest.approx(2 * 8 * 100 / 10**8)


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
        account(transfers=[*TRANSFERS, [0, 2, 100.0, [2], 3.0, 4.0, None]])


def test_a_plan_comes_back_from_its_file_as_what_it_was(tmp_path: Any) -> None:
    kinds.save(plan(), tmp_path / "plan")
    again = kinds.load(tmp_path / "plan")
    assert again == plan()
    assert (again.kind, kinds.of(again).name) == ("fabric_sync", "fabric_sync")


def test_too_many_aggregators_are_refused() -> None:
    with pytest.raises(SchemeError, match="mlfabric_s has 3 aggregators for 2 workers"):
        build_plan("mlfabric_s(aggregators=3)", build_topology("star(hosts=4)", rate_bps=10**8), [])
