"""Round trips over loopback: hosts that meet, and packets that are no answers."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import WorkerError
from testbed.topologies.build import build as build_topology
from testbed.workloads import kinds
from testbed.workloads.job import Peer
from testbed.workloads.locality import echo
from testbed.workloads.locality.distances import rounds, symmetric
from testbed.workloads.locality.echo import Answering, EchoJob, Meet, packed, probe
from testbed.workloads.sync.flows import neighbours
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.schemes import build
from tests import ports

HERE, THERE = "127.91.0.1", "127.91.0.2"
_ports = ports.blocks(2)


@pytest.fixture
def used() -> tuple[int, int]:
    first = next(_ports)
    return first, first + 1


@contextmanager
def answering(used: tuple[int, int], answer: Callable[[bytes], list[bytes]]) -> Iterator[None]:
    """A host at THERE that sends what ``answer`` makes of each packet, until it is left."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((THERE, used[1]))
        sock.settimeout(0.02)
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                try:
                    data, source = sock.recvfrom(64)
                except TimeoutError:
                    continue
                for packet in answer(data):
                    sock.sendto(packet, source)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def test_a_packet_has_14_bits_of_its_number_and_18_of_its_round() -> None:
    assert packed(0, 0) == bytes(4)
    assert packed(2**18 - 1, 0) == b"\x00\x03\xff\xff"
    assert packed(0, 2**14 - 1) == b"\xff\xfc\x00\x00"
    assert packed(5, 3) == (3 * 2**18 + 5).to_bytes(4, "big")


def test_each_packet_is_answered_once(used: tuple[int, int]) -> None:
    with answering(used, lambda data: [data]):
        result = probe(Meet(7, 1, HERE, THERE), used, 50)
    assert (result.round, result.peer, result.sent, result.answered, result.left_out) == (7, 1, 50, 50, 0)
    assert result.rtt_s is not None
    assert 0 < result.rtt_s < 0.01


def test_doubled_answers_and_those_of_another_round_are_left_out(used: tuple[int, int]) -> None:
    def answer(data: bytes) -> list[bytes]:
        number = int.from_bytes(data, "big") >> 18
        return [packed(6, number), data, data, b"long" + data, b""]

    with answering(used, answer):
        result = probe(Meet(7, 1, HERE, THERE), used, 20)
    assert result.answered == 20
    assert 4 * 19 <= result.left_out <= 4 * 20
    assert result.rtt_s is not None


def test_late_answers_are_left_out(used: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer comes when the next packet is on its way: none counts, and the pair has no distance."""
    monkeypatch.setattr(echo, "ANSWER_S", 0.03)
    before = [b"none"]

    def late(data: bytes) -> list[bytes]:
        before.append(data)
        return [before[-2]]

    with answering(used, late):
        result = probe(Meet(7, 1, HERE, THERE), used, 50)
    assert (result.sent, result.answered, result.left_out, result.rtt_s) == (echo.SILENT, 0, echo.SILENT, None)


def test_lost_packets_cost_little_time(used: tuple[int, int]) -> None:
    def lossy(data: bytes) -> list[bytes]:
        return [data] if (int.from_bytes(data, "big") >> 18) % 3 else []

    monotonic = time.monotonic()
    with answering(used, lossy):
        result = probe(Meet(0, 1, HERE, THERE), used, 31)
    assert (result.sent, result.answered) == (31, 20)
    assert time.monotonic() - monotonic < echo.ANSWER_S + 31 / 3 * 0.2


def test_a_host_that_falls_silent_is_left(used: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen process, and one that nobody started: its kernel says that nobody listens."""
    monkeypatch.setattr(echo, "ANSWER_S", 0.03)
    with answering(used, lambda data: [data] if int.from_bytes(data, "big") >> 18 < 5 else []):
        result = probe(Meet(0, 1, HERE, THERE), used, 200)
    assert (result.sent, result.answered) == (5 + echo.SILENT, 5)
    nobody = probe(Meet(0, 1, HERE, THERE), used, 200)
    assert (nobody.sent, nobody.answered, nobody.rtt_s) == (echo.SILENT, 0, None)


def test_strangers_get_no_answer(used: tuple[int, int]) -> None:
    """Packets from another address or port, of a round in which the sender is not met, and of another size."""
    with Answering([Meet(4, 1, HERE, THERE)], used) as answered:
        for source, data in [
            ((THERE, used[0]), packed(5, 0)),
            ((THERE, used[0]), packed(4, 0) + b"x"),
            ((THERE, used[1]), packed(4, 0)),
            (("127.91.0.3", used[0]), packed(4, 0)),
        ]:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.bind(source)
                stranger.sendto(data, (HERE, used[1]))
                stranger.settimeout(0.05)
                with pytest.raises(TimeoutError):
                    stranger.recv(64)
        assert answered.strangers == 4
        result = probe(Meet(4, 0, THERE, HERE), used, 3)
    assert result.answered == 3


def test_answers_of_strangers_are_not_heard(used: tuple[int, int]) -> None:
    """Another process guesses the packets and is faster."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.91.0.3", used[1]))

        def answer(data: bytes) -> list[bytes]:
            stranger.sendto(data, (HERE, used[0]))
            time.sleep(0.01)
            return [data]

        with answering(used, answer):
            result = probe(Meet(0, 1, HERE, THERE), used, 5)
    assert (result.answered, result.left_out) == (5, 0)
    assert result.rtt_s is not None
    assert result.rtt_s >= 0.01


def test_an_address_that_is_taken_is_named(used: tuple[int, int]) -> None:
    with Answering([Meet(0, 1, HERE, THERE)], used), pytest.raises(WorkerError, match=f"cannot listen at {HERE}"):
        Answering([Meet(0, 1, HERE, THERE)], used)


def jobs(hosts: int, used: tuple[int, int], folder: Path) -> list[EchoJob]:
    net = build_topology(f"star(hosts={hosts})", rate_bps=10**9)
    ring = build("ring", net, [])
    assert isinstance(ring, Forest)
    kinds.save(ring, folder / "ring")
    prefix = f"127.{92 + os.getpid() % 100}.{os.getpid() // 100 % 256}"
    met = rounds(hosts)

    def meets(node: int) -> tuple[Meet, ...]:
        pairs = [(number, sum(pair) - node) for number, some in enumerate(met) for pair in some if node in pair]
        return tuple(Meet(number, peer, f"{prefix}.{node + 1}", f"{prefix}.{peer + 1}") for number, peer in pairs)

    def peers(node: int) -> tuple[Peer, ...]:
        return tuple(
            Peer(peer, f"{prefix}.{node + 1}", f"{prefix}.{peer + 1}", used[0]) for peer in neighbours(ring, node)
        )

    return [
        EchoJob(
            node=node,
            forest=str(folder / "ring"),
            peers=peers(node),
            rounds=len(met),
            meets=meets(node),
            ports=used,
            congestion_control="cubic",
            start_timeout_s=20,
            timeout_s=3,
            samples=str(folder / f"h{node}.jsonl"),
            sent=30,
        )
        for node in range(hosts)
    ]


def start(job: EchoJob, folder: Path) -> subprocess.Popen[str]:
    job.save(folder / f"h{job.node}.json")
    command = [sys.executable, "-P", "-m", "testbed.workloads.worker", str(folder / f"h{job.node}.json")]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def test_processes_of_five_hosts_measure_all_pairs(used: tuple[int, int], tmp_path: Path) -> None:
    some = jobs(5, used, tmp_path)
    running = [start(job, tmp_path) for job in some]
    assert [(*process.communicate(timeout=60), process.returncode) for process in running] == [(None, "", 0)] * 5
    lines = [json.loads(line) for job in some for line in Path(job.samples).read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"echo"}
    assert len(lines) == 20
    assert all(25 <= line["answered"] <= 30 for line in lines)  # on a busy machine some answers come too late
    distances = symmetric(5, {(line["node"], line["peer"]): line["rtt_s"] for line in lines})
    off_diagonal = distances[~np.eye(5, dtype=bool)]
    assert all(0 < rtt_s < 0.1 and not math.isnan(rtt_s) for rtt_s in off_diagonal)


def test_a_process_that_is_killed_ends_the_others(used: tuple[int, int], tmp_path: Path) -> None:
    """Neighbours of the killed one say who it was."""
    *others, last = jobs(3, used, tmp_path)
    running = [start(job, tmp_path) for job in others]
    killed = start(EchoJob(**{**vars(last), "sent": 2**14}), tmp_path)
    deadline_s = time.monotonic() + 40
    while not (tmp_path / "h2.jsonl").exists() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    killed.kill()
    killed.communicate()
    errors = [process.communicate(timeout=30)[1] for process in running]
    assert [process.returncode for process in running] == [1, 1]
    assert any("h2" in error for error in errors), errors


def test_a_host_to_which_no_route_leads_has_no_distance(used: tuple[int, int]) -> None:
    found = probe(Meet(0, 1, HERE, "192.0.2.1"), used)  # the kernel sends nothing there from a loopback address
    assert (found.sent, found.answered, found.rtt_s) == (0, 0, None)
