"""Threads that come before others, and their children, which do not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from testbed.base.urgency import urgent

ASK = "import os; print(os.sched_getscheduler(0))"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_thread_is_urgent_meanwhile_and_its_children_are_not() -> None:
    with urgent():
        assert os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO
        child = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert int(child.stdout) == os.SCHED_OTHER
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_who_may_not_goes_on_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refused)
    with urgent():
        assert os.sched_getscheduler(0) == os.SCHED_OTHER
