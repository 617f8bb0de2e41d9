"""CPU counters."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from testbed.machine.monitor import Counters, Monitor, read_cpu
from tests.patience import until
from tests.testbed.cgroup import quota, removed

STAT = """\
cpu  201 20 100 1600 80 10 30 40 14 6
cpu0 100 10 50 800 40 5 15 20 7 3
cpu1 101 10 50 800 40 5 15 20 7 3
cpu10 9 9 9 9 9 9 9 9 9 9
intr 12345 1 2 3
"""


def test_proc_stat_is_read_as_the_manual_says() -> None:
    idle_s, steal_s, total_s = read_cpu(STAT, {0})
    assert idle_s == pytest.approx(8.4)  # idle and iowait
    assert steal_s == pytest.approx(0.2)
    assert total_s == pytest.approx(10.4)  # without guest, which is part of user
    both = read_cpu(STAT, {0, 1})
    assert both == pytest.approx((16.8, 0.4, 20.81))


def test_readings_cover_the_time_inside_with() -> None:
    before_s = time.monotonic()
    with Monitor() as monitor:
        until(lambda: len(monitor.log.at_s) >= 3)
    log = monitor.log
    assert before_s <= log.at_s[0]
    assert log.at_s[-1] <= time.monotonic()
    assert log.at_s == sorted(log.at_s)
    assert all(later >= earlier for earlier, later in zip(log.total_s, log.total_s[1:], strict=False))
    assert len(log.at_s) == len(log.idle_s) == len(log.steal_s) == len(log.total_s) == len(log.throttled_s)


@pytest.mark.lab
def test_what_a_quota_withholds_is_counted_while_it_does() -> None:
    code = "import sys\nwhile True: pass"
    with quota(0.02) as place, subprocess.Popen([sys.executable, "-c", code]) as burning:
        try:
            (place / "inner").mkdir()
            (place / "inner" / "cgroup.procs").write_text(str(burning.pid))
            counters = Counters([burning.pid])  # the group above the one that it lies in has the quota
            before_s = counters.read("")[3]
            assert before_s is not None
            until(lambda: (counters.read("")[3] or 0.0) > before_s + 0.2)
        finally:
            burning.kill()
            burning.wait()
            removed(place / "inner")
