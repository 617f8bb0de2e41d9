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
    assert question.seen[0].startswith("Workers waited longest in BML on BCube at batch 16: ")
