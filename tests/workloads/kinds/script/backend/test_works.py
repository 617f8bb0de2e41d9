"""What a script waits for: once over, with a timeout, and of several at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch

from testbed.base.errors import TrialTimeoutError
from testbed.workloads.kinds.script.backend.rows import Row
from testbed.workloads.kinds.script.backend.works import Ours, joined


def ours(**more: object) -> tuple[Ours, list[BaseException]]:
    failed: list[BaseException] = []
    return Ours(None, [torch.ones(1)], lambda _, error: failed.append(error), **more), failed  # type: ignore[arg-type]


def test_whoever_waits_for_a_while_is_told_and_the_collective_goes_on() -> None:
    work, failed = ours()
    with pytest.raises(TrialTimeoutError) as caught:
        work.wait(timedelta(milliseconds=10))
    assert str(caught.value) == (
        "a collective has not ended within the 0.01 s that the script waits for it\n"
        "  fix: see what the other ranks do, or wait longer"
    )
    assert (work.is_completed(), failed) == (False, [caught.value])
    work.complete(None)
    assert work.wait(timedelta(seconds=1))


def test_the_first_end_counts() -> None:
    ends: list[int] = []
    work, failed = ours(finish=lambda: ends.append(1))
    work.get_future()
    work.complete(None)
    work.complete(ValueError("late"))
    assert work.wait()
    assert (ends, failed, work.exception()) == ([1], [], None)


def test_an_error_of_what_finishes_it_is_the_collectives() -> None:
    def finish() -> None:
        raise ValueError("no room")

    work, failed = ours(finish=finish)
    work.complete(None)
    with pytest.raises(ValueError, match="no room"):
        work.wait()
    assert len(failed) == 1


def test_the_wait_for_several_is_that_for_the_last() -> None:
    rows = [Row({"group": 0, "seq": i}) for i in range(2)]
    works = [Ours(row, [], lambda *_: None) for row in rows]
    together = joined(works, rows[-1], [], lambda *_: None)
    for one in works:
        one.complete(None)
    together.wait()
    assert [row.is_settled for row in rows] == [False, True]
