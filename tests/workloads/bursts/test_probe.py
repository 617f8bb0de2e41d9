"""The burst over loopback: what is counted, and neighbours that are late, silent or absent."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace

import pytest

from testbed.base.errors import WorkerError
from testbed.workloads.bursts.arrivals import SETTLE, median_rate_bps
from testbed.workloads.bursts.datagrams import HEARD
from testbed.workloads.bursts.probe import GRACE_S, Bursts
from testbed.workloads.job import Probe
from tests import ports

_ports = ports.blocks(5)


def ring(count: int, duration_s: float, *, datagrams: bool = False) -> list[Probe]:
    """NICs 127.78.0.1 .. count, each of which sends to the next one."""
    port = next(_ports)
    name = [f"127.78.0.{i + 1}" for i in range(count)]
    made = [Probe(name[i], name[(i + 1) % count], name[i - 1], port, port, 10**9, duration_s) for i in range(count)]
    return [replace(one, datagram_bytes=2**16 if datagrams else None) for one in made]


@pytest.mark.parametrize("datagrams", [False, True])
def test_every_nic_reports_what_arrived(datagrams: bool) -> None:
    probes = ring(3, 0.3, datagrams=datagrams)
    with Bursts(probes) as bursts:
        begin = time.monotonic()
        found = bursts.run()
        took = time.monotonic() - begin
    assert [one.port_address for one in found] == [probe.local for probe in probes]
    for one in found:
        assert one.asked_bps == 10**9
        assert one.rate_bps > 10**7
        window_bytes = one.rate_bps / 8 * 0.3 * (1 - SETTLE)
        assert one.bytes > 0.8 * window_bytes
        assert one.sent_bytes > 0.8 * window_bytes
        assert (one.acknowledged_bytes > 0) is not datagrams
    assert 0.3 <= took < 0.3 + 2 * GRACE_S


def test_the_rate_is_that_of_the_window() -> None:
    """A sender of 1 MB at once and then 100 kB/s: the burst at the start is not counted, the rest is."""
    (probe,) = ring(1, 1.0)
    probe = Probe("127.78.0.1", "127.78.0.2", "127.0.0.1", probe.send_port, probe.listen_port, 10**6, 1.0)

    def send() -> None:
        with socket.create_connection((probe.local, probe.listen_port)) as sock:
            sock.sendall(bytes(1_000_000))
            for _ in range(12):
                time.sleep(0.1)
                sock.sendall(bytes(10_000))

    with socket.create_server((probe.remote, probe.send_port)), Bursts([probe]) as bursts:
        thread = threading.Thread(target=send)
        thread.start()
        (found,) = bursts.run()
        thread.join()
    assert found.bytes == 1_120_000
    assert 8 * 30_000 < found.rate_bps < 8 * 300_000  # with the burst it would be above 8 * 1_000_000


def test_one_stall_does_not_lower_the_rate_but_a_slow_link_does() -> None:
    steady = [(0.01 * i, 1000 * i) for i in range(101)]
    stalled = [(t, n) for t, n in steady if t <= 0.5] + [(t + 0.2, n) for t, n in steady if t > 0.5]
    assert median_rate_bps(steady) == pytest.approx(800_000)
    assert median_rate_bps(stalled) == pytest.approx(800_000)
    assert median_rate_bps([(t, n // 2) for t, n in steady]) == pytest.approx(400_000, rel=0.01)


def test_a_rate_needs_two_moments() -> None:
    assert median_rate_bps([]) == 0
    assert median_rate_bps([(1.0, 500)]) == 0


def test_a_source_that_never_sends_is_zero_and_bounded() -> None:
    (probe,) = ring(1, 0.1)
    probe = Probe("127.78.0.1", "127.78.0.2", "127.78.0.2", probe.send_port, probe.listen_port, 10**9, 0.1)
    with socket.create_server((probe.remote, probe.send_port)), Bursts([probe]) as bursts:
        begin = time.monotonic()
        (found,) = bursts.run()
        assert time.monotonic() - begin < 0.1 + 2 * GRACE_S
    assert (found.rate_bps, found.bytes) == (0, 0)


@pytest.mark.parametrize("datagrams", [False, True])
def test_a_stranger_is_not_measured_in_place_of_the_source(datagrams: bool) -> None:
    """A stream that says nothing, and datagrams that say that it is over; both from another address."""
    probes = ring(2, 0.3, datagrams=datagrams)
    kind = socket.SOCK_DGRAM if datagrams else socket.SOCK_STREAM
    with Bursts(probes) as bursts, socket.socket(type=kind) as stranger:
        stranger.bind(("127.78.0.9", 0))
        stranger.connect((probes[0].local, probes[0].listen_port))
        if datagrams:
            for _ in range(HEARD):
                stranger.send(b"\0")
        found = bursts.run()
    assert all(one.rate_bps > 10**7 for one in found)


def test_no_probes_take_no_time() -> None:
    with Bursts([]) as bursts:
        begin = time.monotonic()
        assert bursts.run() == []
        assert time.monotonic() - begin < GRACE_S


def test_a_paced_sender_of_datagrams_keeps_its_pace() -> None:
    probes = [replace(probe, pace_bps=2 * 10**8) for probe in ring(2, 0.3, datagrams=True)]
    with Bursts(probes) as bursts:
        found = bursts.run()
    assert [one.rate_bps for one in found] == pytest.approx([2 * 10**8] * 2, rel=0.3)


@pytest.mark.parametrize("datagrams", [False, True])
def test_a_burst_may_be_paced_faster_than_an_int_of_bytes(datagrams: bool) -> None:
    """From 17 Gbit/s on, bytes per second are more than a C int holds."""
    probes = [replace(probe, pace_bps=3 * 10**10) for probe in ring(2, 0.1, datagrams=datagrams)]
    with Bursts(probes) as bursts:
        found = bursts.run()
    assert all(one.bytes > 0 for one in found)


@pytest.mark.parametrize("datagrams", [False, True])
def test_a_target_that_does_not_listen_is_named(datagrams: bool) -> None:
    (probe,) = ring(1, 0.1, datagrams=datagrams)
    probe = replace(probe, remote="127.78.0.2")
    with Bursts([probe]) as bursts, pytest.raises(WorkerError, match=r"burst to 127\.78\.0\.2:.*refused"):
        bursts.run()


@pytest.mark.parametrize("datagrams", [False, True])
def test_a_taken_port_is_named(datagrams: bool) -> None:
    (probe,) = ring(1, 0.1, datagrams=datagrams)
    with socket.socket(type=socket.SOCK_DGRAM if datagrams else socket.SOCK_STREAM) as taken:
        taken.bind((probe.local, probe.listen_port))
        with pytest.raises(WorkerError, match=rf"cannot listen at {probe.local}:{probe.listen_port}"):
            Bursts([probe])
