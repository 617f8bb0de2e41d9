"""What is left on a host, where others have processes and locks, too."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.base.errors import PrivilegeError
from testbed.lab.baremetal.nics import leftovers, undoing
from tests.patience import PATIENCE_S, until

OTHER = 65534
Pretend = Callable[..., subprocess.Popen[bytes]]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


@pytest.fixture
def pretend() -> Iterator[Pretend]:
    """Starts a process whose words are an agent's: bash has options of these names, and runs the script."""
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / leftovers.AGENTS[0]).write_text("echo; read line\n")

        def start(owner: str | bytes, **options: int) -> subprocess.Popen[bytes]:
            words = ["bash", "-P", "-m", leftovers.AGENTS[0], "work", owner]
            process = subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
            started.append(process)
            assert process.stdout
            process.stdout.readline()
            return process

        yield start
        for one in started:
            one.communicate(timeout=PATIENCE_S)


def left(home: Path) -> list[str]:
    return [one["token"] for one in leftovers.find(str(home))]


def test_a_process_whose_words_are_no_text_keeps_no_agent_from_starting(pretend: Pretend, tmp_path: Path) -> None:
    process = pretend(b"somebody \xff\xfe")
    pretend("")
    (tmp_path / "work" / "token").mkdir(parents=True)
    assert leftovers._agents()[process.pid] == "somebody \udcff\udcfe"
    leftovers.end_former("another run")
    assert left(tmp_path) == ["token"]


@as_root
def test_another_users_process_keeps_nothing_from_being_found(pretend: Pretend, tmp_path: Path) -> None:
    (tmp_path / "work" / "token").mkdir(parents=True)
    own = pretend("somebody token")
    assert left(tmp_path) == []
    own.communicate(timeout=PATIENCE_S)
    pretend("somebody token", user=OTHER)
    assert left(tmp_path) == ["token"]


def test_what_goes_deep_is_deleted(tmp_path: Path) -> None:
    """Deeper than Python can go down, whose limit is lower here, for rm takes its time."""
    at = tmp_path / "work" / "token"
    at.mkdir(parents=True)
    (tmp_path / "kept").touch()
    (at / "link").symlink_to(tmp_path / "kept")
    here, limit = Path.cwd(), sys.getrecursionlimit()
    try:
        os.chdir(at)
        for _ in range(300):
            Path("d").mkdir()
            os.chdir("d")
        sys.setrecursionlimit(300)
        leftovers.remove(str(tmp_path))
    finally:
        sys.setrecursionlimit(limit)
        os.chdir(here)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_lock_on_what_is_open_to_all_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undoing, "STATE", tmp_path / "testbed")
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        code = (
            "import sys; from pathlib import Path; from testbed.lab.baremetal.nics import undoing\n"
            "undoing.STATE = Path(sys.argv[1])\n"
            "with undoing.lock(): print('locked')\n"
        )
        root = Path(leftovers.__file__).parents[4]
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(undoing.STATE)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        until(lambda: process.poll() is not None)
        assert process.communicate()[0] == b"locked\n"
    finally:
        os.close(held)
    assert not undoing.STATE.exists()


@as_root
def test_a_folder_that_is_anothers_is_no_place_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undoing, "STATE", tmp_path / "testbed")
    undoing.STATE.mkdir()
    os.chown(undoing.STATE, OTHER, OTHER)
    with pytest.raises(PrivilegeError, match="belongs to the user"), undoing.lock():
        pass
