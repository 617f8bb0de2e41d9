"""What waits at egresses while a trial trains, from the kernel to the table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from testbed.analysis.record.tables import Window, columns
from testbed.execution.queues import record, table
from testbed.lab.measurements import Queues, Waited

from ..bench import Bench

SLOW = """
name: slow-link
links: {rate: 40 Gbit/s}
workload: {kind: profile, model: vgg19, scale: 400, batch: 32, iterations: 3, warmup: 0, compute: none}
arms: [{topology: star(hosts=3), scheme: ps}]
perturb: [{kind: rate, links: [h1], direction: in, share: 0.2, at: 0 s}]
"""
TO_H1 = 3
"""The directed link of s0 to h1."""


def test_times_are_those_of_the_trial() -> None:
    windows = (
        Waited(0, 9.5, 1.0, 5, 5.0, 0.0, 0, 0),  # with the bursts that measure links
        Waited(0, 10.5, 1.0, 7, 6.0, 1.0, 2, 0),
        Waited(1, 11.5, 1.0, 9, 9.0, 0.0, 0, 0),
        Waited(1, 12.5, 1.0, 1, 1.0, 0.0, 0, 0),
    )
    found = table(Queues(windows, 4, 0.1), 10.0, 12.0)
    assert found is not None
    assert tuple(found) == columns(Window)
    assert found.values.tolist() == [[0, 0.5, 1.0, 7, 6.0, 1.0, 2, 0], [1, 1.5, 0.5, 9, 9.0, 0.0, 0, 0]]


def test_a_lab_that_cannot_tell_leaves_no_table() -> None:
    assert (table(None, 0.0, 1.0), record(None)) == (None, None)
    nothing = table(Queues((), 4, 0.1, "no more"), 0.0, 1.0)
    assert nothing is not None
    assert (len(nothing), tuple(nothing)) == (0, columns(Window))
    assert {one.kind for one in nothing.dtypes} == {"i", "f"}  # as tables of others must have
    assert record(Queues((), 4, 0.1, "no more")) == {"readings": 4, "cost_s": 0.1, "problem": "no more"}


@pytest.mark.lab
def test_bytes_wait_at_the_slow_link(bench: Bench, tmp_path: Path) -> None:
    (outcome,) = bench.run(SLOW, tmp_path)
    found, jct_s = outcome.queues, outcome.record["metrics"]["jct_s"]
    assert found is not None
    assert outcome.record["queues"]["problem"] is None
    assert found["start_s"].between(0, jct_s).all()
    waited = (found["mean_bytes"] * found["window_s"]).groupby(found["link"]).sum() / jct_s
    assert isinstance(waited, pd.Series)
    assert waited[TO_H1] > 3 * waited.drop(TO_H1).max()
    assert waited[TO_H1] > 50_000
