"""An agent that is root beside workers that are not: what those plant leads to nothing that is root's."""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

from ..agents import Agent

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root's rights")

USER = 65534
DATA = base64.b64encode(b"planted").decode()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user may enter, with a file and a directory in it that are root's."""
    folder = Path(tempfile.mkdtemp(prefix="testbed-test-"))
    folder.chmod(0o755)
    (folder / "roots").mkdir(mode=0o700)
    (folder / "roots/secret").write_text("of root\n")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def agent(place: Path) -> Iterator[Agent]:
    """One that sudo has started for an ordinary user."""
    begun = Agent(place / "work/token", secrets.token_hex(8), {"SUDO_UID": str(USER), "SUDO_GID": str(USER)})
    yield begun
    with suppress(BrokenPipeError):
        begun.process.communicate(timeout=PATIENCE_S)


def untouched(place: Path) -> bool:
    """What is root's is as it was."""
    found = [path.name for path in (place / "roots").iterdir()]
    owners = {path.stat().st_uid for path in (place / "roots", place / "roots/secret", place / "work", place)}
    return found == ["secret"] and owners == {0} and (place / "roots/secret").read_text() == "of root\n"


def test_a_link_in_the_place_of_a_directory_lets_nothing_be_written(agent: Agent, place: Path) -> None:
    work = place / "work/token"
    agent.run(f"ln -s {place}/roots {work}/1")
    for name in ("1/file", "1/new/file"):
        assert "Permission denied" in agent.answer("put", path=name, data=DATA)["problem"]
    assert untouched(place)


def test_a_link_in_the_place_of_a_file_is_replaced(agent: Agent, place: Path) -> None:
    work = place / "work/token"
    agent.run(f"ln -s {place}/roots/secret {work}/job.json; mkfifo {work}/pipe")
    for name in ("job.json", "pipe"):
        agent.ask("put", path=name, data=DATA, mode=0o600)
        status = (work / name).lstat()
        assert (status.st_uid, oct(status.st_mode)) == (USER, "0o100600")
        assert (work / name).read_bytes() == b"planted"
    assert untouched(place)


@pytest.mark.parametrize("planted", ["ln -s {place}/roots/secret", "mkfifo"])
def test_what_is_no_file_is_neither_followed_nor_waited_for(agent: Agent, place: Path, planted: str) -> None:
    log, go, done = place / "work/token/log", place / "go", place / "work/token/done"
    plant = f"rm {log}; {planted.format(place=place)} {log}; touch {done}"
    pid = agent.start(f"echo told; until [ -e {go} ]; do sleep 0.02; done; {plant}; sleep 0.2")
    assert agent.read()["grown"] == "log"
    go.touch()
    assert agent.read() == {"ended": pid, "status": 0}, "and nothing is told of it before"
    assert done.exists()
    assert agent.ask("hello")
    assert untouched(place)


def test_a_log_that_is_a_link_is_neither_written_nor_told(agent: Agent, place: Path) -> None:
    work = place / "work/token"
    agent.run(f"ln -s {place}/roots/secret {work}/other")
    pid = agent.start("echo planted", "other")
    told = agent.read()
    assert told["ended"] == pid
    assert told["status"] != 0
    assert untouched(place)


def test_programs_are_the_users_and_ended_by_root(agent: Agent, place: Path) -> None:
    assert agent.ask("execute", words=["id", "-u"], limit_s=PATIENCE_S)[1] == f"{USER}\n"
    assert agent.ask("hello")["root"]
    pid = agent.start("exec sleep 1000")
    agent.ask("signal", number=9, pid=pid)
    assert agent.read() == {"ended": pid, "status": -9}
    agent.run(f"cd {place}/work/token; mkdir -p a/b; touch a/b/c; chmod 0 a/b; ln -s {place}/roots r")
    agent.ask("leave")
    assert agent.process.wait(PATIENCE_S) == 0
    assert not (place / "work").exists()
    assert [path.name for path in (place / "roots").iterdir()] == ["secret"]
