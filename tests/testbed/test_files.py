"""Writing so that nobody ever sees half a file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from testbed.errors import DiskFullError, OutputError
from testbed.files import open_regular, read_json, write_bytes, write_json, write_through


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": [1, None], "schlüssel": "ü"})
    assert read_json(tmp_path / "a.json") == {"x": [1, None], "schlüssel": "ü"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_bytes(path, b"old")

    def half(temporary: Path) -> None:
        temporary.write_bytes(b"ne")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DiskFullError) as error:
        write_through(path, half)
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


def test_what_another_process_has_put_in_a_files_place_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"x"
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, why in (("link", "a link is in its place"), ("pipe", "no regular file"), ("folder", "no regular file")):
        with pytest.raises(OutputError, match=f"{name}: .*{why}"):
            open_regular(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")
