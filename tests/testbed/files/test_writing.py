"""Writing so that nobody ever sees half a file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from testbed.base.errors import DiskFullError, OutputError
from testbed.files.writing import opened_folder, read_json, write_bytes, write_json


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": [1, None], "schlüssel": "ü"})
    assert read_json(tmp_path / "a.json") == {"x": [1, None], "schlüssel": "ü"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_failed_write_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    write_bytes(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError) as error:
        write_bytes(path, b"new")
    assert str(error.value).startswith(f"no room is left on the disk for {path}\n  fix: free some space")
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"absent/a\.txt: cannot be written: no such file or directory"):
        write_bytes(tmp_path / "absent" / "a.txt", b"")


@pytest.mark.parametrize(("text", "problem"), [("{", "damaged, not JSON"), ("[]", "damaged, holds no JSON object")])
def test_damage_is_said(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(OutputError, match=problem):
        read_json(tmp_path / "a.json")


def test_a_number_that_json_does_not_have_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Out of range"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_what_was_put_in_the_way_is_neither_followed_nor_in_the_way(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "results.csv"
    victim.write_text("precious")
    path.symlink_to(victim)
    (tmp_path / ".results.csv.tmp").mkdir()  # under the name that earlier versions took
    write_bytes(path, b"ours")
    assert (victim.read_text(), path.read_text(), path.is_symlink()) == ("precious", "ours", False)


def test_names_in_between_cannot_be_foreseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    replace = os.replace

    def noted(name: str, *more: str, **folders: int) -> None:
        names.append(name)
        replace(name, *more, **folders)

    monkeypatch.setattr(os, "replace", noted)
    for _ in range(2):
        write_bytes(tmp_path / "a.txt", b"")
    assert len(set(names)) == 2


def test_a_folder_that_is_held_cannot_be_swapped_for_a_link(tmp_path: Path) -> None:
    for name in ("trials", "elsewhere"):
        (tmp_path / name).mkdir()
    with opened_folder(tmp_path) as run:
        with opened_folder("trials", run) as folder:
            (tmp_path / "trials").rename(tmp_path / "moved")
            (tmp_path / "trials").symlink_to(tmp_path / "elsewhere")
            write_json(tmp_path / "trials" / "a.json", {}, folder)
        with pytest.raises(NotADirectoryError), opened_folder("trials", run):
            pass
    assert [path.name for path in (tmp_path / "moved").iterdir()] == ["a.json"]
    assert list((tmp_path / "elsewhere").iterdir()) == []
