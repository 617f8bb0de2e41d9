"""Agents of one run that come after one another on a host, without SSH between them and us."""

from __future__ import annotations

import base64
import fcntl
import os
import secrets
import signal
import termios
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from testbed.lab.baremetal.on_hosts import processes
from testbed.machine.cgroups import throttled_s
from tests.patience import PATIENCE_S, until
from tests.testbed.cgroup import quota

from .agents import Agent


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[str], Agent]]:
    begun: list[Agent] = []

    def begin(owner: str) -> Agent:
        begun.append(Agent(tmp_path / owner, owner))
        return begun[-1]

    yield begin
    for one in begun:
        with suppress(BrokenPipeError):
            one.process.communicate(timeout=PATIENCE_S)


def waiting_bytes(agent: Agent) -> int:
    """What it has told that nobody has taken."""
    found = array("i", [0])
    assert agent.process.stdout
    fcntl.ioctl(agent.process.stdout, termios.FIONREAD, found)
    return found[0]


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_an_agent_tells_of_the_quota_that_it_and_its_workers_have(begin: Callable[[str], Agent]) -> None:
    with quota(0.2) as group:
        agent = begin(secrets.token_hex(8))
        (group / "cgroup.procs").write_text(str(agent.process.pid))
        assert agent.ask("hello")["cores"] == 0.2
        agent.ask("watch", on=True)
        agent.start("sh -c 'while :; do :; done'")
        before_s = throttled_s([group])
        assert before_s is not None
        until(lambda: (throttled_s([group]) or 0.0) > before_s + 1.0)
        agent.ask("watch", on=False)
        told_s = [reading[4] for message in agent.told for reading in message.get("cpu", ())]
        agent.process.kill()
        agent.process.wait()
        for line in (group / "cgroup.procs").read_text().split():
            os.kill(int(line), signal.SIGKILL)
    assert told_s[-1] - told_s[0] > 0.1


def test_an_agent_ends_the_one_before_it_of_the_same_run(begin: Callable[[str], Agent]) -> None:
    ours, others = (secrets.token_hex(8) for _ in range(2))
    first, stranger = begin(ours), begin(others)
    worker, other = first.start("sleep 1000"), stranger.start("sleep 1000")
    second = begin(ours)
    assert second.ask("hello")["pid"] == second.process.pid
    assert (first.process.wait(PATIENCE_S), lives(worker)) == (0, False)
    assert (stranger.process.poll(), lives(other)) == (None, True)
    assert second.start("true") > 0


def test_also_one_that_waits_for_somebody_to_take_what_it_tells(begin: Callable[[str], Agent]) -> None:
    owner = secrets.token_hex(8)
    first = begin(owner)
    worker = first.start("head -c 1000000 /dev/zero; sleep 1000")
    until(lambda: waiting_bytes(first) > 60_000)  # of the 64 KiB that a pipe holds
    assert begin(owner).ask("hello")
    assert (first.process.wait(PATIENCE_S), lives(worker)) == (0, False)


def test_a_long_log_is_told_to_its_end_and_keeps_no_request_waiting(begin: Callable[[str], Agent]) -> None:
    agent = begin(secrets.token_hex(8))
    pid = agent.start("head -c 60000000 /dev/zero")  # and ends at once
    agent.told.append(agent.read())
    assert agent.ask("hello")
    assert {"ended": pid, "status": 0} not in agent.told
    while agent.told[-1:] != [{"ended": pid, "status": 0}]:
        agent.told.append(agent.read())
    assert sum(len(base64.b64decode(one["data"])) for one in agent.told if "grown" in one) == 60_000_000


def test_what_left_its_session_ends_with_the_lab(begin: Callable[[str], Agent], tmp_path: Path) -> None:
    agent = begin(secrets.token_hex(8))
    agent.run(
        f"setsid sh -c 'sleep 1000 & echo $! > {tmp_path}/pid; sleep 1000' & until [ -s {tmp_path}/pid ]; do :; done"
    )
    stays = int((tmp_path / "pid").read_text())
    assert lives(stays)
    agent.ask("undo")
    assert not lives(stays)
    agent.run("true")


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"{" * 100_000,
        b'{"do": "hello"}',
        b'{"id": 1}',
        b'{"id": [], "do": "hello"}',
        b'{"id": 1, "do": {}}',
        b'{"id": 1, "do": "no_such_thing"}',
        b'{"id": 1, "do": "put", "path": 7}',
        b'{"id": 1, "do": "hello", "\xff": 1}',
    ],
    ids=range(9),
)
def test_what_is_no_request_is_refused_by_name(begin: Callable[[str], Agent], line: bytes) -> None:
    agent = begin(secrets.token_hex(8))
    assert agent.process.stdin
    agent.process.stdin.write(line + b"\n")
    agent.process.stdin.flush()
    refused = agent.read()
    assert refused["problem"]
    assert "Traceback" not in refused["problem"]
    assert agent.ask("hello")["pid"] == agent.process.pid


def test_a_pipe_or_a_link_in_a_files_place_is_refused_and_not_waited_for(
    begin: Callable[[str], Agent], tmp_path: Path
) -> None:
    owner = secrets.token_hex(8)
    agent, elsewhere = begin(owner), tmp_path / "elsewhere"
    assert agent.ask("put", path="1/told", data="YQ==", more=True) is None
    os.mkfifo(tmp_path / owner / "1/pipe")
    (tmp_path / owner / "1/link").symlink_to(elsewhere)
    for name in ("pipe", "link"):
        assert "put: " in agent.answer("put", path=f"1/{name}", data="YQ==", more=True)["problem"]
    assert agent.ask("put", path="1/told", data="Yg==", more=True) is None
    assert (tmp_path / owner / "1/told").read_text() == "ab"
    assert not elsewhere.exists()


def test_traffic_is_told_of_ports_and_of_shaped_nics_alone(begin: Callable[[str], Agent]) -> None:
    agent = begin(secrets.token_hex(8))
    assert "first is 'a', no int" in agent.answer("traffic", first="a", last=2)["problem"]
    assert agent.answer("traffic", first=1, last=2)["problem"] == "no NIC is shaped here"


def test_a_long_answer_is_refused_and_not_said(begin: Callable[[str], Agent]) -> None:
    agent = begin(secrets.token_hex(8))
    refused = agent.answer("execute", words=["head", "-c", "5000000", "/dev/zero"], limit_s=PATIENCE_S)
    assert "may have 4,194,304" in refused["problem"]
    assert agent.ask("execute", words=["echo", "a"], limit_s=PATIENCE_S) == [0, "a\n", ""]


def test_processes_that_end_while_they_are_listed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: Path) -> bool:
        raise ProcessLookupError(path)

    monkeypatch.setattr(Path, "exists", gone)  # as the kernel answers of a process that ends just then
    monkeypatch.setattr(Path, "read_bytes", gone)
    assert processes._orphans() == []
