"""Waiting for the slowest worker."""

from __future__ import annotations

from testbed.analysis import metrics
from testbed.analysis.recorded import Run

from ..helpers import answer, only


def test_mean_and_longest_wait(run: Run) -> None:
    question = answer(only(run, "bml-b16"), "waits")
    samples = run.trials[2].samples
    assert samples is not None
    waits = metrics.waits_s(samples, skip=1)
    (row,) = question.frame.to_dict("records")
    assert row["wait_s"] == waits.mean().mean()
    assert row["wait_longest_s"] == waits.mean().max()
    assert row["waited_longest"] == f"rank {waits.mean().idxmax()}"
    assert question.seen[0].startswith("Workers waited ")
    assert " on average in BML on BCube at batch 16, where rank " in question.seen[0]


def test_the_longest_wait_is_that_of_a_network(run: Run) -> None:
    seen = answer(only(run, "ps-b16", "ring-b16", "bml-b16"), "waits").seen
    assert [told.partition(", workers waited ")[0] for told in seen] == [
        "On star(hosts=9) with 9 workers",
        "On bcube(n=3,k=2) with 9 workers",
    ]
    assert "waited longest in" in seen[0]
