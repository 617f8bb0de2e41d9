"""CPU counters."""

from __future__ import annotations

import time

import pytest

from testbed.monitor import Monitor, read_cpu

STAT = "cpu  100 10 50 800 40 5 15 20 7 3\ncpu0 1 2 3\n"


def test_the_first_line_of_proc_stat_is_read_as_the_manual_says() -> None:
    idle_s, steal_s, total_s = read_cpu(STAT, ticks_per_s=100)
    assert idle_s == pytest.approx(8.4)  # idle and iowait
    assert steal_s == pytest.approx(0.2)
    assert total_s == pytest.approx(10.4)  # without guest, which is part of user


def test_readings_cover_the_time_inside_with() -> None:
    before = time.monotonic()
    with Monitor() as monitor:
        time.sleep(0.2)
    log = monitor.log
    assert len(log.at_s) >= 3
    assert before <= log.at_s[0] <= before + 0.1
    assert log.at_s == sorted(log.at_s)
    assert all(later >= earlier for earlier, later in zip(log.total_s, log.total_s[1:], strict=False))
    assert len(log.at_s) == len(log.idle_s) == len(log.steal_s) == len(log.total_s)
