"""Programs that start others on other hosts: what they say is not believed, and nobody else waits for it."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.lab.netns.on_nodes import calls
from testbed.lab.netns.on_nodes.calls import NUMBER, Calls, take
from testbed.lab.programs import Program
from testbed.topologies.build import build
from tests.patience import PATIENCE_S, until

from . import attack

HOLD_UP = Path(__file__).with_name("hold_up.py")
SOON_S = 5.0
WORDS = b'["h1", "true"]'


class Node:
    """The calls of a node, taken in a thread of this process; what reaches the sandbox comes from ``lab``."""

    def __init__(self, path: Path) -> None:
        self.path = str(path / "agent")
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.setblocking(False)
        self._listening.bind(self.path)
        self._listening.listen()
        self.lab, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.lab.setblocking(False)
        self._thread = threading.Thread(target=Calls(self._listening, theirs).serve)
        self._thread.start()

    def call(self, said: bytes = b"", files: tuple[int, ...] = ()) -> socket.socket:
        found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
        found.settimeout(SOON_S)
        found.connect(self.path)
        if said:
            socket.send_fds(found, [said], files)
        return found

    def passed_on(self, within_s: float = SOON_S) -> tuple[bytes, bytes, list[os.stat_result]]:
        """The next call that reaches the sandbox: its number, what it says and its files. Raises TimeoutError."""
        self.lab.settimeout(within_s)
        said, files, _, _ = socket.recv_fds(self.lab, 4096, 4)
        found = [os.fstat(fd) for fd in files]
        for fd in files:
            os.close(fd)
        return said[: NUMBER.size], said[NUMBER.size :], found

    def close(self) -> None:
        self.lab.close()
        self._thread.join()
        self._listening.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    found = Node(tmp_path)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def pipes() -> Iterator[tuple[int, int, int]]:
    end, other = os.pipe()
    yield end, other, other
    os.close(end)
    os.close(other)


@pytest.mark.parametrize("said", [b"[", b"[" * 100_000, b"{}", b'["h1", 3]', b'["h1"]', WORDS, b"\xff"])
def test_a_call_that_makes_no_sense_goes_no_further(said: bytes, node: Node) -> None:
    with node.call(said) as call:  # also the one that makes sense has no files
        assert call.recv(1) == b""
    with pytest.raises(BlockingIOError):
        node.lab.recv(1)


def test_a_call_is_passed_on_with_its_files_and_answered(node: Node, pipes: tuple[int, int, int]) -> None:
    with node.call(WORDS, pipes) as one, node.call(b'["h2", "false"]', pipes) as other:
        found = [node.passed_on(), node.passed_on()]
        for number, said, files in reversed(found):
            assert files == [os.fstat(fd) for fd in pipes]
            node.lab.send(number + said)
        assert (one.recv(99), other.recv(99)) == (WORDS, b'["h2", "false"]')


def test_files_that_may_not_close_at_once_are_refused(node: Node, pipes: tuple[int, int, int]) -> None:
    with node.call(WORDS, (pipes[0], pipes[1], node.lab.fileno())) as call:
        assert call.recv(99) == b"a command on another host takes only files, pipes and terminals as input and output"
    terminal, end = os.openpty()
    null = os.open(os.devnull, os.O_RDONLY)
    with Path(__file__).open() as file, node.call(WORDS, (null, end, file.fileno())):
        assert len(node.passed_on()[2]) == 3
    for fd in (terminal, end, null):
        os.close(fd)


def test_a_call_that_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    monkeypatch.setattr(calls, "SILENT_S", 0.2)
    with node.call() as call:
        assert call.recv(1) == b""


def test_a_call_more_than_there_is_room_for_waits(
    monkeypatch: pytest.MonkeyPatch, node: Node, pipes: tuple[int, int, int]
) -> None:
    monkeypatch.setattr(calls, "MOST", 1)
    with node.call(WORDS, pipes) as first:
        number, _, _ = node.passed_on()
        with node.call(WORDS, pipes):
            with pytest.raises(TimeoutError):
                node.passed_on(0.2)
            node.lab.send(number + b"ended")
            assert first.recv(99) == b"ended"
            assert node.passed_on()[1] == WORDS


def test_where_no_more_files_can_be_open_calls_wait_and_nothing_spins(tmp_path: Path) -> None:
    attempts: list[float] = []

    class Full(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            attempts.append(time.monotonic())
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    lab, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with (
        Full(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as call,
        theirs,
    ):
        listening.bind(str(tmp_path / "agent"))
        listening.listen()
        call.connect(str(tmp_path / "agent"))
        thread = threading.Thread(target=Calls(listening, theirs).serve)
        thread.start()
        until(lambda: len(attempts) > 3)
        lab.close()
        thread.join()
    assert len(attempts) <= 2 + (attempts[-1] - attempts[0]) / calls.PAUSE_S


def test_a_call_whose_files_did_not_arrive_is_told() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.send(NUMBER.pack(7) + WORDS)
        assert take(theirs, lambda *_: pytest.fail("it was started"))
        assert ours.recv(99) == NUMBER.pack(7) + b"the lab has too many open files"
        ours.shutdown(socket.SHUT_WR)
        assert not take(theirs, lambda *_: pytest.fail("it was started"))


@pytest.mark.lab
@pytest.mark.parametrize("how", ["lingering", "silent", "limiting"])
def test_a_host_cannot_hold_up_the_lab_or_another_host(how: str, tmp_path: Path) -> None:
    topology = build("star(hosts=3)", rate_bps=10**8)
    with NetnsLab() as lab:
        lab.share(tmp_path)
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        agent = tuple(lab.agent())
        log = tmp_path / "hostile.log"
        lab.start(0, Program((attack.PYTHON, str(HOLD_UP), how), {}, "/"), str(log))
        until(lambda: log.read_text() == "ready\n")
        began_s = time.monotonic()
        lab.counters()
        asked = lab.start(1, Program((*agent, "h2", "hostname"), {}, "/"), str(tmp_path / "honest.log"))
        assert asked.wait(PATIENCE_S) == 0
        assert (tmp_path / "honest.log").read_text() == "h2\n"
        assert time.monotonic() - began_s < SOON_S
        lab.down()
        assert time.monotonic() - began_s < 2 * SOON_S
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))  # the next trial is as ever
        again = lab.start(0, Program((*lab.agent(), "h2", "hostname"), {}, "/"), str(tmp_path / "again.log"))
        assert again.wait(PATIENCE_S) == 0
        assert (tmp_path / "again.log").read_text() == "h2\n"
