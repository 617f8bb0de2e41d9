"""Agents of one run that come after one another on a host, without SSH between them and us."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import subprocess
import sys
import termios
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S, until

ROOT = Path(__file__).parents[4]


class Agent:
    """One, and the pipes that SSH would be."""

    def __init__(self, work: Path, owner: str) -> None:
        words = [sys.executable, "-P", "-m", "testbed.lab.baremetal.agent", str(work), owner]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )

    def ask(self, do: str, **fields: object) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"id": 0, "do": do, **fields}).encode() + b"\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if "id" in (answer := json.loads(line)):
                return answer["result"]
        raise AssertionError("it has ended")

    def start(self, script: str) -> int:
        return int(self.ask("start", words=["sh", "-c", script], environment={}, folder="/", log="log"))


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
