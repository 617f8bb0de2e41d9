"""Files of others: what is read of them, and what is refused without waiting, following, or filling memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.base import bounded_json
from testbed.base.bounded_json import parse_json
from testbed.files import foreign
from testbed.files.foreign import UnfitError, read_bytes, read_object, read_tail, size_bytes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Somebody else's, with links out of it, in it, and a FIFO."""
    (tmp_path / "secret.json").write_text('{"a": 1}')
    (tmp_path / "theirs" / "real").mkdir(parents=True)
    (tmp_path / "theirs" / "real" / "own.json").write_text('{"b": 2}')
    (tmp_path / "theirs" / "file.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "theirs" / "folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "theirs" / "fifo.json")
    return tmp_path / "theirs"


def test_what_is_below_is_read_and_the_folder_itself_may_be_a_link(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    for there in (folder, link):
        assert read_object(there / "real" / "own.json", there) == {"b": 2}


@pytest.mark.parametrize("name", ["file.json", "folder/secret.json"])
def test_no_link_below_is_followed(folder: Path, name: str) -> None:
    with pytest.raises(UnfitError, match="is a symbolic link, or in one"):
        read_object(folder / name, folder)
    assert read_object(folder / name) == {"a": 1}  # whoever names it may


@pytest.mark.parametrize("below", [True, False])
def test_a_fifo_and_a_folder_are_refused_at_once(folder: Path, below: bool) -> None:
    for name in ("fifo.json", "real"):
        with pytest.raises(UnfitError, match="is no regular file"):
            read_bytes(folder / name, below=folder if below else None)
    with pytest.raises(UnfitError, match="is no regular file"):
        size_bytes(folder / "fifo.json")
    with pytest.raises(UnfitError, match="is a symbolic link"):
        size_bytes(folder / "file.json")


def test_no_more_is_read_than_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(b"0123456789")
    assert read_bytes(path, 10) == b"0123456789"
    with pytest.raises(UnfitError, match="has more than 9 bytes"):
        read_bytes(path, 9)
    assert read_tail(path, 4) == b"6789"
    assert read_tail(path, 40) == b"0123456789"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole
    assert read_tail(path, 4) == bytes(4)


def test_a_copy_is_of_the_file_and_not_over_another(folder: Path, tmp_path: Path) -> None:
    foreign.copy(folder / "real" / "own.json", tmp_path / "copy", folder)
    assert (tmp_path / "copy").read_text() == '{"b": 2}'
    with pytest.raises(FileExistsError):
        foreign.copy(folder / "real" / "own.json", tmp_path / "copy", folder)
    with pytest.raises(UnfitError):
        foreign.copy(folder / "file.json", tmp_path / "other", folder)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 50 + b"1" + b"}" * 50, "nested too deeply"),
        (b"[" + b"1," * bounded_json.MOST_VALUES + b"1]", "more than 1,048,576 values"),
        (b'{"a": 1e999}', "no finite number"),
        (b"[NaN]", "no finite number"),
        (b"[1e200]", "no finite number"),
        (b"[" + b"9" * 25 + b"]", "no finite number"),
        (b"[" + b"9" * 5000 + b"]", "no finite number"),
        (b'"\xff"', "can't decode"),
        (b"{", "Expecting"),
    ],
    ids=["deep", "33 deep", "wide", "1e999", "NaN", "1e200", "25 digits", "5000 digits", "UTF-8", "cut"],
)
def test_json_that_is_none_of_ours(text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_json(text)


def test_json_of_ours_stays_as_it_is() -> None:
    value = b'{"a": [1, -2.5, true, null, "x\\ny", 9223372036854775807], "\xc3\xbc": {"b": []}}'
    assert parse_json(value) == {"a": [1, -2.5, True, None, "x\ny", 2**63 - 1], "ü": {"b": []}}
    assert parse_json(b"[NaN, 1e999]", finite=False)[1] == float("inf")


def test_text_cannot_move_a_terminals_cursor() -> None:
    text = '{"a\\u001b[2J": ["b\\u202e", "\\ud800", "c\u202e\x7f", "d\u0085", "e\\n\\tf"]}'.encode()
    assert parse_json(text) == {"a\\x1b[2J": ["b\\u202e", "\\ud800", "c\\u202e\\x7f", "d\\x85", "e\n\tf"]}
