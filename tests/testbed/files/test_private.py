"""Folders that only we may enter."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from testbed.base.errors import PrivilegeError
from testbed.files import private
from tests.patience import PATIENCE_S

OTHER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


def test_a_folder_is_made_for_us_alone(tmp_path: Path) -> None:
    for _ in range(2):
        os.close(private.make(tmp_path / "own"))
    (tmp_path / "own").chmod(0o755)
    os.close(private.make(tmp_path / "own"))
    assert oct((tmp_path / "own").stat().st_mode) == "0o40700"
    with pytest.raises(FileNotFoundError):
        private.enter(tmp_path / "none")
    with pytest.raises(FileNotFoundError), private.locked(tmp_path / "none/own", wait=True):
        pass


@as_root
def test_anothers_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    os.chown(tmp_path / "taken", OTHER, OTHER)
    with pytest.raises(PrivilegeError, match=rf"taken belongs to the user {OTHER}, and should be only the user 0's"):
        private.make(tmp_path / "taken")


def test_what_others_may_have_filled_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("open", "can be written to by others"), ("link", "is no folder"), ("pipe", "is no folder")):
        with pytest.raises(PrivilegeError, match=rf"{name} {why}"):
            private.make(tmp_path / name)


def test_one_at_a_time_and_nothing_is_left(tmp_path: Path) -> None:
    path, counts = tmp_path / "own", [0, 0]

    def work() -> None:
        for _ in range(50):
            with private.locked(path, wait=True):
                counts[0] += 1
                assert counts[0] == 1
                counts[0] -= 1
                counts[1] += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE_S)
    assert counts == [0, 200]
    assert not path.exists()
    with private.locked(path, wait=False), pytest.raises(BlockingIOError), private.locked(path, wait=False):
        pass
