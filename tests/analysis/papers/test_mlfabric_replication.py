"""What copies of the model cost, decided from made-up runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from testbed.analysis.papers.claim import Finding, Runs, Verdict
from testbed.analysis.papers.mlfabric.replication import (
    COPIES,
    FAILOVER,
    FED,
    LOST,
    PAPERS_TIMES,
    REPLICA,
    REPLICA_TIMES,
    failover,
    replicated,
    replication,
)
from testbed.analysis.papers.mlfabric.scheduler import PLAN, PLANNED
from testbed.analysis.record.happened import Event, Loss
from testbed.analysis.record.metrics import Accuracy
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


KILL = Event("kill", "h0", done_s=0.5)


def lost(label: str, recovered_s: Sequence[float], *, weights_error: float = 0.0) -> Trial:
    """Two processes were killed."""
    losses = tuple(Loss(f"h{i}", recovered_s=one) for i, one in enumerate(recovered_s))
    known = Accuracy(weights_error=weights_error, weights_equal=True)
    return replace(trial(label, 1, Times(0.1)), events=(KILL, KILL), losses=losses, accuracy=known)


def losing(**changed: Trial) -> Runs:
    """Everybody goes on after 0.2 s, but in arms that are named."""
    return {FAILOVER.spec: run([changed.get(arm) or lost(arm, [0.1, 0.2]) for arm in LOST])}


def with_verdict(found: Finding, verdict: Verdict) -> list[str]:
    return [check.says for check in found.checks if check.verdict == verdict]


def test_what_is_not_survived_is_not_decided() -> None:
    found = failover(losing())
    assert found.verdict == Verdict.UNDECIDED
    assert not with_verdict(found, Verdict.FAILS)
    assert len(with_verdict(found, Verdict.HOLDS)) == 2 * len(LOST) + 1


@pytest.mark.parametrize(("error", "verdict"), [(0.0, Verdict.HOLDS), (1e-7, Verdict.FAILS)])
def test_a_replica_that_is_fed_has_the_servers_bits(error: float, verdict: Verdict) -> None:
    arms = {arm: lost(arm, [0.1, 0.2]) for arm in FED}
    found = failover(
        losing(**{arm: replace(one, metrics=replace(one.metrics, replica_error=error)) for arm, one in arms.items()})
    )
    checks = [check for check in found.checks if check.says.startswith("distance of the replica")]
    assert [check.verdict for check in checks] == [verdict] * len(FED)


def test_a_late_commit_fails() -> None:
    found = failover(losing(daemon=lost("daemon", [0.1, 1.5])))
    assert with_verdict(found, Verdict.FAILS) == ["from notice to commit, daemon lost: at most 1 s, always"]


def test_a_loss_that_nobody_tells_fails() -> None:
    found = failover(losing(worker=lost("worker", [0.1])))
    assert with_verdict(found, Verdict.FAILS) == ["from notice to commit, worker lost: at most 1 s, always"]


def test_other_weights_fail() -> None:
    found = failover(losing(scheduler=lost("scheduler", [0.1, 0.1], weights_error=1e-9)))
    assert with_verdict(found, Verdict.FAILS) == ["repeated weights that differ, scheduler lost: none, ever"]


def test_more_lost_updates_than_since_a_checkpoint_fail() -> None:
    many = Loss("h6", recovered_s=0.2, lost_updates=[(0, i) for i in range(19)])
    found = failover(losing(checkpoint=replace(lost("checkpoint", [0.1]), losses=(many, many), events=(KILL, KILL))))
    assert with_verdict(found, Verdict.FAILS) == [
        "updates lost with a server that has a checkpoint: at most 18, always"
    ]


def test_a_server_too_far_ahead_fails_and_so_does_an_update_that_is_lost_for_good() -> None:
    for apart, gone, verdict in ((0.19, 0.0, Verdict.HOLDS), (0.3, 0.0, Verdict.FAILS), (0.1, 1.0, Verdict.FAILS)):
        server = lost("server", [0.1, 0.1])
        accuracy = replace(server.accuracy, takeover_apart=apart)
        metrics = replace(server.metrics, takeover_lost=gone)
        found = failover(losing(server=replace(server, accuracy=accuracy, metrics=metrics)))
        (check,) = (check for check in found.checks if check.says.startswith("distance to the replica"))
        assert check.verdict == verdict, (apart, gone)


def test_what_was_not_run_is_not_decided() -> None:
    assert {check.verdict for check in failover({}).checks} == {Verdict.UNDECIDED}
