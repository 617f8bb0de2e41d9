"""The moments of a collective: from the script's call to when its thread goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.base.errors import WorkerError
from testbed.execution import rank_lines
from testbed.workloads.kinds.ranks import Call, Failed
from testbed.workloads.kinds.script.backend import rows as module
from testbed.workloads.kinds.script.backend.rows import Rows
from testbed.workloads.rank_job import RankJob


class _Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Clock]:
    found = _Clock()
    monkeypatch.setattr(module, "time", found)
    return found


@pytest.fixture
def rows(tmp_path: Path, clock: _Clock) -> Rows:
    job = RankJob(0, "h0", 0, 2, "script", "", (), ("",), 1024, "reno", 1.0, 1.0, str(tmp_path / "h0.jsonl"))
    found = Rows(job)
    found.say("hello", rank=0, congestion_control="reno", time=clock.now_s)
    return found


def told(rows: Rows, folder: Path) -> tuple[list[Call], list[Failed]]:
    """What the harness reads of them."""
    rows.close()
    found = rank_lines.rows(rank_lines.read(folder / "h0.jsonl"), 0, 0)
    assert found is not None
    return list(found.calls), list(found.failed)


def test_a_collective_is_asked_for_when_the_script_calls_it(rows: Rows, clock: _Clock, tmp_path: Path) -> None:
    """Copies before and plans after are part of it; waiting for a pace is not."""

    def pace(op: str, _: int) -> None:
        clock.now_s += 50 * (op == "reduce_scatter")

    rows.asks = pace
    with rows.asking():
        clock.now_s += 3
        row = rows.call("reduce_scatter", "float32", 400, 2)
        with rows.asking():  # Gloo's, of which it is made
            rows.call("allreduce", "float32", 4, 2)
        clock.now_s += 2
    clock.now_s = 159.0
    row.done()
    row.waited(155.0)
    (call,), _ = told(rows, tmp_path)
    assert (call.asked_s, call.asking_s, call.done_s, call.waited_s, call.held_s) == (150.0, 5.0, 159.0, 4.0, 9.0)


def test_a_rank_has_a_result_when_the_thread_that_waits_for_it_goes_on(
    rows: Rows, clock: _Clock, tmp_path: Path
) -> None:
    """Before, it may wait for a core. A result that was there before the wait, it had before; one that was there before
    it could wait, when it could."""
    for done_s, for_it in ((105.0, True), (105.0, False), (101.0, True)):
        clock.now_s = 100.0
        row = rows.call("allreduce", "float32", 400, 2)
        clock.now_s = done_s
        row.done()
        clock.now_s = 109.0
        row.waited(102.0, for_it=for_it)
    with rows.asking():
        rows.call("broadcast", "float32", 400, 2).done()
        clock.now_s = 112.0
    calls, _ = told(rows, tmp_path)
    assert [call.done_s for call in calls] == [109.0, 105.0, 101.0, 112.0]
    assert [call.waited_s for call in calls] == [7.0, 7.0, 7.0, 0.0]


def test_each_collective_that_fails_is_told_once(rows: Rows, tmp_path: Path) -> None:
    row, error = rows.call("allreduce", "float32", 400, 2), ValueError("no room\nat all")
    rows.failed(row, error)
    rows.failed(row, WorkerError("again", fix="wait"))
    rows.refused("allreduce", 0, error)  # as it is raised
    rows.refused("barrier", 3, WorkerError("h1 has left", fix="wait"))
    _, failed = told(rows, tmp_path)
    assert failed == [
        Failed(0, 0, "allreduce", 0, "ValueError: no room"),
        Failed(0, 3, "barrier", None, "WorkerError: h1 has left"),
    ]
