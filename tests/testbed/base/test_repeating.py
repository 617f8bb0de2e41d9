"""A thread that repeats until it is closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator

from testbed.base.repeating import Repeating
from tests.patience import until


def test_it_waits_as_long_as_it_is_asked_to_between_two_times() -> None:
    at_s: list[float] = []

    def work() -> Generator[float, None, None]:
        for wait_s in (0.05, 0.0, 60.0):
            at_s.append(time.monotonic())
            yield wait_s

    thread = Repeating("test", work())
    thread.start()
    until(lambda: len(at_s) == 3)
    closed_s = time.monotonic()
    thread.close()
    assert time.monotonic() - closed_s < 30, "closing ends a wait"
    assert at_s[1] - at_s[0] >= 0.05
    assert len(at_s) == 3


def test_it_has_ended_when_it_is_closed() -> None:
    begun, gone_on = threading.Event(), threading.Event()

    def work() -> Generator[float, None, None]:
        begun.set()
        gone_on.wait()
        time.sleep(0.05)
        done.append(True)
        yield 0.0
        done.append(False)

    done: list[bool] = []
    thread = Repeating("test", work())
    thread.start()
    begun.wait()
    gone_on.set()
    thread.close()
    assert done == [True], "what was begun is ended, and nothing is begun any more"


def test_it_ends_with_its_work_and_may_never_be_started() -> None:
    done: list[bool] = []

    def work() -> Generator[float, None, None]:
        done.append(True)
        yield 0.0

    thread = Repeating("test", work())
    thread.start()
    until(lambda: done)
    thread.close()
    Repeating("test", work()).close()
    assert done == [True]
