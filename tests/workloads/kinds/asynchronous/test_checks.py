"""What can be wrong with updates that wait for no sum."""

from __future__ import annotations

import pandas as pd
import pytest

from testbed.fidelity import run_queue
from testbed.workloads.kinds.asynchronous.checks import judge_staleness, judge_updates
from testbed.workloads.kinds.asynchronous.measures import UpdatesMeasures


def updates(gst_s: float, held_s: float = 0.0, wait_s: float = 0.0) -> pd.DataFrame:
    """Two ranks, two updates each, one after the other from 1 s on, each ready when the one before is back."""
    ready = [1 + i * (gst_s + held_s) for i in range(4)]
    rows = {"rank": [0, 1, 0, 1], "iteration": [0, 0, 1, 1], "ready_s": ready}
    frame = pd.DataFrame(rows).assign(held_s=held_s, wait_s=[0.0, wait_s, 0.0, wait_s], factor=[1.0, 1.0, 2.0, 1.0])
    sums = frame["ready_s"] + gst_s + held_s
    return frame.assign(start_s=frame["ready_s"], sum_s=sums, end_s=sums, extra_s=0.0, update=range(4))


def test_an_update_cannot_be_faster_than_there_and_back() -> None:
    assert judge_updates(updates(0.2), 0.2, 0.4).ok
    fast = judge_updates(updates(0.18), 0.2, 0.4)
    assert not fast.ok
    assert fast.detail.startswith("from gradients to newer weights an update takes 0.900")
    assert judge_updates(updates(0.2, held_s=0.5), 0.2, 0.4).value == pytest.approx(1.0)


def test_all_updates_together_cannot_be_faster_than_the_busiest_link() -> None:
    fast = judge_updates(updates(0.2), 0.1, 0.9)
    assert not fast.ok
    assert fast.value == pytest.approx(0.8 / 0.9)
    assert fast.detail.startswith("from gradients to newer weights all updates together take 0.889")


def test_no_asynchronous_job_ends_before_its_slowest_worker_can_have_computed_and_sent_all() -> None:
    """The job takes 0.8 s. Worker 0 computes for 3 paces, as one of its two updates is made at half the speed."""
    assert judge_updates(updates(0.2), 0.2, 0.4, pace_s=0.13).ok
    fast = judge_updates(updates(0.2), 0.2, 0.4, pace_s=0.2)
    assert (fast.ok, fast.value, fast.detail[:12]) == (False, pytest.approx(0.8), "JCT is 0.800")


def test_of_updates_the_worst_worker_decides() -> None:
    check = run_queue.judge(updates(0.2, wait_s=0.1), UpdatesMeasures())
    assert (check.value, check.ok) == (pytest.approx(0.5), False)
    assert check.detail == "a worker waited for a core during 50% of an update"
    assert run_queue.judge(updates(0.2), UpdatesMeasures()).ok
    assert run_queue.judge(updates(0.2).assign(wait_s=None), UpdatesMeasures()).value is None


def test_updates_beyond_what_the_scheme_allows_are_not_believed() -> None:
    assert judge_staleness(7, 7, 40).ok
    check = judge_staleness(8, 7, 40)
    assert not check.ok
    assert "of 40 updates the most stale missed 8 others; the scheme allows 7" in check.detail
    assert "is not judged" in check.detail
