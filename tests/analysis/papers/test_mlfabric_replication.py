"""What copies of the model cost, decided from made-up runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from testbed.analysis.papers.claim import Runs, Verdict
from testbed.analysis.papers.mlfabric.plan import PLAN, PLANNED
from testbed.analysis.papers.mlfabric.replication import (
    COPIES,
    PAPERS_TIMES,
    REPLICA,
    REPLICA_TIMES,
    replicated,
    replication,
)
from testbed.analysis.recorded import Trial
from testbed.workloads.kinds.transfers import Purpose
from tests.shipped import MLFABRIC

from .made_up import WORLD, Times, run, trial

pytestmark = pytest.mark.xdist_group(MLFABRIC)

BEHIND = {"replica, N": (1, 2), "replica, 5N": (4, 5, 5), "replica, 20N": (5, 6, 6)}
"""By arm, the updates in transfers to the replica."""


def measured(changed: Mapping[str, float]) -> Runs:
    """As the paper has it, but for the times of arms that are named."""
    times = {arm: paper if isinstance(paper, float) else 1.6 for arm, paper in PAPERS_TIMES.items()}
    times |= {"A": 1.0, "ring": 1.0, "chain": 20.0} | dict(changed)
    trials = {arm: copied(arm, one) for arm, one in times.items()}
    replicas = [trials.pop(arm) for arm in REPLICA_TIMES]
    return {
        COPIES.spec: run([*trials.values()]),
        REPLICA.spec: run(replicas),
        PLAN.spec: run([copied(PLANNED, 1.0)]),
    }


def copied(arm: str, iteration_s: float) -> Trial:
    found = trial(arm, 1, Times(iteration_s / 2, iteration_s / 2))
    told = np.array(20 * BEHIND.get(arm, ()), int)
    others = {"from": 0, "purpose": int(Purpose.REPLICA), "size_bytes": 1.0, "start_s": 0.0, "end_s": 1.0}
    there = pd.DataFrame({"members": told, "to": WORLD + 1, **others})
    collected = pd.DataFrame({"members": [1], "to": [0], **others})  # by an aggregator
    vars(found)["transfers"] = pd.concat([there, collected], ignore_index=True)
    return found


def test_as_the_paper_has_it() -> None:
    found = replication(measured({}))
    assert found.verdict == Verdict.HOLDS, [check for check in found.checks if check.verdict != Verdict.HOLDS]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"replica, 20N": 1.9}, "a higher bound costs less time"),
        ({"checkpoint, N": 1.2}, "a tight bound (30 workers) costs less than checkpoints as often (8 workers)"),
        ({"checkpoint, 20N": 3.0}, "a loose bound (30 workers) costs more than checkpoints every 20N (8 workers)"),
        ({"chain": 1.5}, "chain replication costs more than a replica"),
        ({"chain": 40.0}, "chain replication costs at most 30 times as much"),
        (
            {"ring, spread": 1.1},
            "iterations with ring, spread, over those without: the cost is the paper's, within 30%",
        ),
    ],
)
def test_otherwise(changed: Mapping[str, float], says: str) -> None:
    found = replication(measured(changed))
    assert says in [check.says for check in found.checks if check.verdict == Verdict.FAILS]


def test_transfers_to_the_replica_alone_count() -> None:
    assert list(replicated(copied("replica, N", 1.0))) == 20 * [1.0, 2.0]
