"""What others leave is removed, whatever it is, and nothing beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.files.removal import remove
from testbed.files.writing import opened_folder

DEEP = 3 * sys.getrecursionlimit()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """What must stay."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "precious").write_text("all of it")
    return path


def removed(folder: Path, name: str = "left") -> bool:
    with opened_folder(folder) as opened:
        remove(name, opened)
    return not os.path.lexists(folder / name)


def test_what_links_lead_to_stays(tmp_path: Path, victim: Path) -> None:
    left = tmp_path / "left"
    (left / "inner").mkdir(parents=True)
    for link in (left / "link", left / "inner" / "link"):
        link.symlink_to(victim)
    (left / "dangling").symlink_to("nowhere")
    os.link(victim / "precious", left / "hard")
    assert removed(tmp_path)
    (tmp_path / "left").symlink_to(victim)
    assert removed(tmp_path)
    assert (victim / "precious").read_text() == "all of it"


def test_fifos_sockets_and_setuid_files_go(tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    os.mkfifo(left / "fifo")
    (left / "setuid").touch()
    (left / "setuid").chmod(0o4755)
    assert removed(tmp_path)
    os.mkfifo(tmp_path / "left")
    assert removed(tmp_path)
    assert removed(tmp_path), "nothing is there"


def test_a_tree_deeper_than_the_stack_goes(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir()
    folder = os.open(tmp_path / "left", os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=folder)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    assert removed(tmp_path)


def test_folders_that_nobody_may_enter_go(tmp_path: Path) -> None:
    inner = tmp_path / "left" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").touch(0)
    for folder in (inner, inner.parent, inner.parent.parent):
        folder.chmod(0)
    assert removed(tmp_path)


def test_what_is_immutable_goes(tmp_path: Path) -> None:
    left = tmp_path / "left" / "inner"
    left.mkdir(parents=True)
    (left / "file").touch()
    barred = [left / "file", left]
    if shutil.which("chattr") is None or subprocess.run(["chattr", "+i", *barred], capture_output=True).returncode:
        pytest.skip("nothing can be made immutable here")
    assert removed(tmp_path)


def test_what_cannot_be_removed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "left").touch()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(PermissionError):
        removed(tmp_path)
