"""What a process says of itself while it trains."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from testbed.workloads.process import vitals
from testbed.workloads.process.vitals import WAITED, Report, Vitals, _waits, needless, segments, together
from tests.patience import until

SNMP = """\
Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm InSegs OutSegs RetransSegs InErrs
Tcp: 1 700 {sent} {resent} 0
"""
NETSTAT = """TcpExt: SyncookiesSent TCPDSACKRecv TCPDSACKRecvSegs
TcpExt: 0 1 {needless}
IpExt: InNoRoutes InOctets
IpExt: 0 700
"""
PR_SET_TIMERSLACK = 29
STOPPED = """
import time
from testbed.workloads.process.vitals import Vitals
with Vitals() as vitals:
    while vitals.report().late_s is None:  # no sleep has ended yet
        time.sleep(0.01)
    begun_s = time.monotonic()
    print(flush=True)
    input()
    print(vitals.halted_s(), time.monotonic() - begun_s, flush=True)
    time.sleep(0.1)
    print(vitals.report().halted_s)
"""


def test_segments_are_found_by_name() -> None:
    assert segments(SNMP.format(sent=500, resent=3)) == (500, 3)
    assert needless(NETSTAT.format(needless=2)) == 2
    assert needless(NETSTAT.format(needless=2).replace("TCPDSACKRecvSegs", "Other")) == 1  # kernels before 5.10


def test_segments_are_counted_from_the_beginning(tmp_path: Path) -> None:
    snmp, netstat = tmp_path / "snmp", tmp_path / "netstat"
    snmp.write_text(SNMP.format(sent=500, resent=3))
    netstat.write_text(NETSTAT.format(needless=2))
    with Vitals(snmp=snmp, netstat=netstat) as vitals:
        snmp.write_text(SNMP.format(sent=1500, resent=5))
        netstat.write_text(NETSTAT.format(needless=3))
        report = vitals.report()
    assert (report.sent_segments, report.resent_segments, report.needless_segments) == (1000, 2, 1)


def test_the_kernel_counts_segments_of_a_connection() -> None:
    with Vitals() as vitals, socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as near:
            near.sendall(b"x")
            server.accept()[0].close()
        assert (vitals.report().sent_segments or 0) >= 3


def test_cpu_time_is_that_of_the_process() -> None:
    with Vitals() as vitals:
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        assert vitals.report().cpu_s == pytest.approx(0.1, abs=0.05)


def report_with_slack(slack_ns: int) -> Report:
    """Timer slack is how late the kernel may wake a thread; a thread inherits it from the one that starts it."""
    found = []

    def watch() -> None:
        assert ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0) == 0
        with Vitals() as vitals:
            time.sleep(0.5)
            found.append(vitals.report())

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()
    return found[0]


def test_late_timers_are_seen() -> None:
    """Early ones again where the machine is busy."""
    until(lambda: (report_with_slack(50_000).late_s or 1.0) < 0.01)
    late = report_with_slack(30_000_000)
    assert (late.late_s or 0.0) > 0.01
    assert late.watched_s >= 0.5


def test_a_thread_that_waits_for_a_core_does_not_stand_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_all_along = nullcontext(time.monotonic)
    monkeypatch.setattr("testbed.workloads.process.vitals._waits", lambda: as_if_all_along)
    assert report_with_slack(30_000_000).halted_s == 0
    monkeypatch.undo()
    monkeypatch.setattr("testbed.workloads.process.vitals.WAITED", tmp_path / "none")  # the kernel does not count waits
    assert (report_with_slack(30_000_000).halted_s or 0) > 0.1


def test_waits_for_a_core_are_the_kernels() -> None:
    with _waits() as so_far_s:
        for _ in range(2):
            before_ns, found_s, after_ns = kernels_ns(), so_far_s(), kernels_ns()
            assert before_ns / 1e9 <= found_s <= after_ns / 1e9
            time.sleep(0.001)


def kernels_ns() -> int:
    return int(WAITED.read_text().split()[1])


def test_unwatched_only_cpu_time_is_known() -> None:
    with Vitals(watched=False) as vitals:
        report = vitals.report()
    assert report.cpu_s >= 0
    assert (report.late_s, report.sent_segments, report.resent_segments) == (None, None, None)


def test_stretches_of_one_process_add_up_and_its_latest_timers_count() -> None:
    found = together(
        [
            Report(1.0, 0.001, 0.1, 0.3, 10, 3, 1, 2.0),
            Report(2.0, 0.003, 0.2, 0.4, 20, 2, 1, 3.0),
            Report(0.5, *[None] * 6),
        ]
    )
    assert found == Report(3.5, 0.003, pytest.approx(0.3), pytest.approx(0.7), 30, 5, 2, 5.0)
    assert together([]) == Report(0, *[None] * 6)


def test_parts_of_a_process_share_a_thread_until_the_last_one_ends() -> None:
    def threads() -> int:
        return [thread.name for thread in threading.enumerate()].count("vitals")

    with Vitals() as first:
        until(lambda: first.report().late_s is not None)
        with Vitals() as second:
            assert threads() == 1
            until(lambda: second.report().late_s is not None)
        known = len(vitals._SLEEPER.late_s)
        until(lambda: len(vitals._SLEEPER.late_s) > known)
    assert threads() == 0


def test_a_process_that_was_stopped_knows_for_how_long() -> None:
    """What is watched is a process of its own, for whoever stops it must be another. On a busy machine it also waits
    for a core: at once that counts, later it is taken off."""
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        found, _ = process.communicate(b"\n")
    at_once_s, lasted_s, later_s = map(float, found.split())
    for found_s in (at_once_s, later_s):
        assert 0.4 < found_s < 1.5 * lasted_s, "counted, and not twice"
