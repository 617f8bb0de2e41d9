"""What a process says of itself while it trains."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from workloads.vitals import Report, Vitals, segments, together

SNMP = """\
Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm InSegs OutSegs RetransSegs InErrs
Tcp: 1 700 {sent} {resent} 0
"""
PR_SET_TIMERSLACK = 29


def test_segments_are_found_by_name() -> None:
    assert segments(SNMP.format(sent=500, resent=3)) == (500, 3)


def test_segments_are_counted_from_the_beginning(tmp_path: Path) -> None:
    file = tmp_path / "snmp"
    file.write_text(SNMP.format(sent=500, resent=3))
    with Vitals(snmp=file) as vitals:
        file.write_text(SNMP.format(sent=1500, resent=5))
        report = vitals.report()
    assert (report.sent_segments, report.resent_segments) == (1000, 2)


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


def test_late_timers_are_seen() -> None:
    """Timer slack is how late the kernel may wake a thread; a thread inherits it from the one that starts it."""
    late_s = {}

    def watch(slack_ns: int) -> None:
        assert ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0) == 0
        with Vitals() as vitals:
            time.sleep(0.5)
            late_s[slack_ns] = vitals.report().late_s

    for slack_ns in (50_000, 30_000_000):
        thread = threading.Thread(target=watch, args=(slack_ns,))
        thread.start()
        thread.join()
    assert late_s[50_000] < 0.01 < late_s[30_000_000]


def test_unwatched_only_cpu_time_is_known() -> None:
    with Vitals(watched=False) as vitals:
        report = vitals.report()
    assert report.cpu_s >= 0
    assert (report.late_s, report.sent_segments, report.resent_segments) == (None, None, None)


def test_stretches_of_one_process_add_up_and_its_latest_timers_count() -> None:
    found = together(
        [Report(1.0, 0.001, 0.1, 0.3, 10, 1), Report(2.0, 0.003, 0.2, 0.4, 20, 0), Report(0.5, *[None] * 5)]
    )
    assert found == Report(3.5, 0.003, pytest.approx(0.3), pytest.approx(0.7), 30, 1)
    assert together([]) == Report(0, *[None] * 5)


def test_a_process_that_was_stopped_knows_for_how_long() -> None:
    """What is watched is a process of its own, for whoever stops it must be another."""
    script = "import time; from workloads.vitals import Vitals\nwith Vitals() as v:\n print(flush=True); input()\n"
    script += " print(v.halted_s(), flush=True); time.sleep(0.1); print(v.report().halted_s)"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        found, _ = process.communicate(b"\n")
    at_once, later = map(float, found.split())
    assert at_once > 0.4
    assert at_once <= later + 0.01
