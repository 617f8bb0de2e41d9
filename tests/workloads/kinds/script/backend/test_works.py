"""What a script waits for: once over, with a timeout, and of several at once."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
import torch

from testbed.base.errors import TrialTimeoutError
from testbed.workloads.kinds.script.backend import futures
from testbed.workloads.kinds.script.backend.rows import Row
from testbed.workloads.kinds.script.backend.works import Ours, joined
from tests.patience import until


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


@pytest.mark.parametrize("added", ["then", "add_done_callback", "collect_all"])
def test_callbacks_of_the_script_run_on_a_thread_of_their_own(added: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One may wait for another collective, which the engine's thread ends. Without any, that thread ends the future."""
    for holder, name in [(torch._C.Future, each) for each in ("wait", "then", "add_done_callback")]:
        monkeypatch.setattr(holder, name, getattr(holder, name))  # so that all are as before, afterwards
    monkeypatch.setattr(torch._C, "_collect_all", torch._C._collect_all)
    futures.wrap()
    work, _ = ours()
    threads: list[str] = []

    def called(_: Any) -> None:
        threads.append(threading.current_thread().name)

    future = work.get_future()
    if added == "collect_all":
        last = torch.futures.collect_all([future]).then(called)
    else:
        getattr(future, added)(called)
        last = future
    work.complete(None)
    last.wait()
    until(lambda: threads or None)
    assert threads[0].startswith("testbed-callback")
    work, _ = ours()
    future = work.get_future()
    work.complete(None)
    assert future.done()
    future.add_done_callback(called)
    assert threads[1:] == [threading.current_thread().name]


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
