"""A run is not written where another user decides."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.base.errors import OutputError
from testbed.run_directory.access import check_way

STRANGER, OTHER_GROUP = 65534, 12345
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to another user")


def folder(path: Path, mode: int = 0o755, uid: int = 0, gid: int = 0) -> Path:
    path.mkdir()
    path.chmod(mode)
    os.chown(path, uid, gid)
    return path


def problem(path: Path) -> str:
    with pytest.raises(OutputError) as caught:
        check_way(path)
    assert caught.value.fix == "name a directory below one that only you can write to: --out ~/runs/NAME"
    return caught.value.problem


def test_what_is_ours_or_not_there_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = folder(tmp_path / "ours")
    (tmp_path / "link").symlink_to("ours")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(ours)
    for path in (ours, tmp_path / "link" / "run", Path("run"), Path("../link/run"), tmp_path / "no" / "run"):
        check_way(path)
    check_way(tmp_path / "loop" / "run")  # the kernel refuses it


def test_a_strangers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = folder(tmp_path / "theirs", uid=STRANGER)
    says = f"{theirs} belongs to another user (uid {STRANGER}), and could have the run written elsewhere"
    assert problem(theirs / "run") == f"{theirs / 'run'}: {says}"
    monkeypatch.chdir(theirs)
    assert problem(Path("run")) == f"run: {says}"
    monkeypatch.setenv("SUDO_UID", str(STRANGER))  # who called us
    check_way(theirs / "run")


def test_a_strangers_link(tmp_path: Path) -> None:
    target = folder(tmp_path / "target")
    shared = folder(tmp_path / "shared", 0o1777)
    (shared / "out").symlink_to(target)
    os.chown(shared / "out", STRANGER, STRANGER, follow_symlinks=False)
    assert "is a symbolic link of another user" in problem(shared / "out")
    assert "is a symbolic link of another user" in problem(shared / "out" / "run")


def test_our_link_into_a_strangers_folder(tmp_path: Path) -> None:
    theirs = folder(tmp_path / "theirs", uid=STRANGER)
    (tmp_path / "link").symlink_to("theirs/../theirs/deep")
    assert f"{theirs} belongs to another user" in problem(tmp_path / "link")


def test_the_folder_above_a_links_target_counts_as_the_kernel_sees_it(tmp_path: Path) -> None:
    """After a link, ``..`` leads out of its target, not out of the link's own folder."""
    open_to_all = folder(tmp_path / "open", 0o777)
    folder(open_to_all / "target")
    (tmp_path / "link").symlink_to("open/target")
    assert f"other users may write to {open_to_all}" in problem(tmp_path / "link" / ".." / "run")


@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_a_folder_that_everybody_may_write(tmp_path: Path, mode: int) -> None:
    open_to_all = folder(tmp_path / "open", mode)
    assert f"other users may write to {open_to_all}" in problem(open_to_all / "run")


def test_a_folder_of_a_group(tmp_path: Path) -> None:
    check_way(folder(tmp_path / "own", 0o775) / "run")
    group = folder(tmp_path / "group", 0o775, gid=OTHER_GROUP)
    assert f"other users may write to {group}" in problem(group / "run")


def test_where_each_may_replace_only_what_is_its_own(tmp_path: Path) -> None:
    shared = folder(tmp_path / "shared", 0o1777)
    check_way(shared / "run")
    check_way(folder(shared / "ours") / "run")
    theirs = folder(shared / "theirs", uid=STRANGER)
    assert f"{theirs} belongs to another user" in problem(theirs)
