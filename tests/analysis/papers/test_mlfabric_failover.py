"""What is lost with a process of MLfabric's, decided from made-up runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from testbed.analysis.papers.claim import Finding, Runs, Verdict
from testbed.analysis.papers.mlfabric.failover import FAILOVER, FED, LOST, failover
from testbed.analysis.record.happened import Event, Loss
from testbed.analysis.record.metrics import Accuracy
from testbed.analysis.recorded import Trial

from .made_up import Times, run, trial

KILL = Event("kill", "h0", done_s=0.5)


def lost(label: str, recovered_s: Sequence[float], *, weights_error: float = 0.0) -> Trial:
    """Two processes were killed."""
    losses = tuple(Loss(f"h{i}", recovered_s=one) for i, one in enumerate(recovered_s))
    known = Accuracy(weights_error=weights_error, weights_equal=True)
    return replace(trial(label, 1, Times(0.1)), events=(KILL, KILL), losses=losses, accuracy=known)


def measured(**changed: Trial) -> Runs:
    """Everybody goes on after 0.2 s, but in arms that are named."""
    return {FAILOVER.spec: run([changed.get(arm) or lost(arm, [0.1, 0.2]) for arm in LOST])}


def with_verdict(found: Finding, verdict: Verdict) -> list[str]:
    return [check.says for check in found.checks if check.verdict == verdict]


def test_what_is_not_survived_is_not_decided() -> None:
    found = failover(measured())
    assert found.verdict == Verdict.UNDECIDED
    assert not with_verdict(found, Verdict.FAILS)
    assert len(with_verdict(found, Verdict.HOLDS)) == 2 * len(LOST) + 1


@pytest.mark.parametrize(("error", "verdict"), [(0.0, Verdict.HOLDS), (1e-7, Verdict.FAILS)])
def test_a_replica_that_is_fed_has_the_servers_bits(error: float, verdict: Verdict) -> None:
    arms = {arm: lost(arm, [0.1, 0.2]) for arm in FED}
    found = failover(
        measured(**{arm: replace(one, metrics=replace(one.metrics, replica_error=error)) for arm, one in arms.items()})
    )
    checks = [check for check in found.checks if check.says.startswith("distance of the replica")]
    assert [check.verdict for check in checks] == [verdict] * len(FED)


def test_a_late_commit_fails() -> None:
    found = failover(measured(daemon=lost("daemon", [0.1, 1.5])))
    assert with_verdict(found, Verdict.FAILS) == ["from notice to commit, daemon lost: at most 1 s, always"]


def test_a_loss_that_nobody_tells_fails() -> None:
    found = failover(measured(worker=lost("worker", [0.1])))
    assert with_verdict(found, Verdict.FAILS) == ["from notice to commit, worker lost: at most 1 s, always"]


def test_other_weights_fail() -> None:
    found = failover(measured(scheduler=lost("scheduler", [0.1, 0.1], weights_error=1e-9)))
    assert with_verdict(found, Verdict.FAILS) == ["repeated weights that differ, scheduler lost: none, ever"]


def test_more_lost_updates_than_since_a_checkpoint_fail() -> None:
    many = Loss("h6", recovered_s=0.2, lost_updates=[(0, i) for i in range(19)])
    found = failover(measured(checkpoint=replace(lost("checkpoint", [0.1]), losses=(many, many), events=(KILL, KILL))))
    assert with_verdict(found, Verdict.FAILS) == [
        "updates lost with a server that has a checkpoint: at most 18, always"
    ]


def test_a_server_too_far_ahead_fails_and_so_does_an_update_that_is_lost_for_good() -> None:
    for apart, gone, verdict in ((0.19, 0.0, Verdict.HOLDS), (0.3, 0.0, Verdict.FAILS), (0.1, 1.0, Verdict.FAILS)):
        server = lost("server", [0.1, 0.1])
        accuracy = replace(server.accuracy, takeover_apart=apart)
        metrics = replace(server.metrics, takeover_lost=gone)
        found = failover(measured(server=replace(server, accuracy=accuracy, metrics=metrics)))
        (check,) = (check for check in found.checks if check.says.startswith("distance to the replica"))
        assert check.verdict == verdict, (apart, gone)


def test_what_was_not_run_is_not_decided() -> None:
    assert {check.verdict for check in failover({}).checks} == {Verdict.UNDECIDED}
