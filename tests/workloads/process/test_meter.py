"""CPU time and run-queue waits of this process."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from testbed.workloads.process.meter import Meter


def test_busy_time_is_cpu_time() -> None:
    meter = Meter()
    begin = meter.now()
    while time.process_time() - begin.cpu_s < 0.05:
        pass
    cpu_s, *_ = meter.now().since(begin)
    assert 0.05 <= cpu_s < 0.5
    meter.close()


def test_sleeping_is_not() -> None:
    meter = Meter()
    begin = meter.now()
    time.sleep(0.5)
    cpu_s, *_ = meter.now().since(begin)
    assert cpu_s < 0.25
    meter.close()


def test_a_thread_may_end() -> None:
    """What it has waited stays counted, so that waits never shrink."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    meter = Meter()
    begin = meter.now()
    end.set()
    thread.join()
    while Path(f"/proc/self/task/{thread.native_id}").exists():  # Python's thread ends before the kernel's
        time.sleep(0.001)
    _, wait_s, _ = meter.now().since(begin)
    assert wait_s is None or wait_s >= 0
    meter.close()


def test_waits_are_the_second_field(tmp_path: Path) -> None:
    """Of every thread: a library works in threads of its own."""
    file = _schedstat(tmp_path, 7)
    file.write_text("500 1000000000 3\n")
    _schedstat(tmp_path, 8).write_text("0 2000000000 3\n")
    meter = Meter(tmp_path)
    assert meter.counts_waits
    begin = meter.now()
    file.write_text("900 1250000000 4\n")
    assert meter.now().since(begin)[1] == pytest.approx(0.25)
    meter.close()


def _schedstat(tasks: Path, thread: int) -> Path:
    (tasks / str(thread)).mkdir()
    return tasks / str(thread) / "schedstat"


@pytest.mark.parametrize("text", [None, "0 0 9\n"])
def test_a_kernel_that_does_not_count_gives_none(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        _schedstat(tmp_path, 7).write_text(text)
    meter = Meter(tmp_path)
    assert not meter.counts_waits
    assert meter.now().since(meter.now())[1] is None
