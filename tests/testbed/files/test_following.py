"""Files of other processes that are read as they grow, whatever these put into their place."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from testbed.files import following
from testbed.files.following import Growth, Lines


def test_what_grows_comes_in_pieces_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PIECE_BYTES", 4)
    path = tmp_path / "a"
    growth = Growth(path)
    assert growth.new() == b""
    path.write_bytes(b"0123456789")
    assert growth.new() == b"0123"
    assert list(growth.rest()) == [b"4567", b"89"]
    assert list(growth.rest()) == []
    limited = Growth(path, most_bytes=7)
    assert [limited.new() for _ in range(3)] == [b"0123", b"456", b""]


@pytest.mark.parametrize("other", ["fifo", "link", "folder"])
def test_what_is_no_file_does_not_grow(tmp_path: Path, other: str) -> None:
    path = tmp_path / "h0.jsonl"
    if other == "fifo":
        os.mkfifo(path)
    elif other == "link":
        (tmp_path / "secret").write_text('{"kind": "begin"}\n')
        path.symlink_to(tmp_path / "secret")
    else:
        path.mkdir()
    assert Growth(path).new() == b""
    assert list(Growth(path).rest()) == []
    assert list(Lines(path).said()) == []


def test_lines_that_make_no_sense_are_left_to_who_reads_them_all(tmp_path: Path) -> None:
    path = tmp_path / "h0.jsonl"
    right = json.dumps({"kind": "iteration", "i": 1}).encode()
    path.write_bytes(b"\n".join([b"[" * 100_000, b"5", b'{"a": 1}', b'{"kind": 5}', b"\xff", right, b'{"kind"']))
    assert list(Lines(path).said()) == [{"kind": "iteration", "i": 1}]


def test_a_line_without_an_end_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LONGEST_LINE_BYTES", 100)
    path = tmp_path / "h0.jsonl"
    lines = Lines(path)
    with path.open("ab") as file:
        for _ in range(5):
            file.write(b"x" * 1000)
            file.flush()
            assert list(lines.said()) == []
            assert len(lines._rest) <= 100
        file.write(b'\n{"kind": "begin"}\n')
    assert list(lines.said()) == [{"kind": "begin"}]


def test_a_link_or_a_pipe_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    path, secret = tmp_path / "a", tmp_path / "secret"
    secret.write_text('{"kind": "secret"}\n' * 3)
    path.write_text('{"kind": "one"}\n{"ki')
    growth, lines = Growth(path), Lines(path)
    assert (len(growth.new()), list(lines.said())) == (20, [{"kind": "one"}])
    for plant in (lambda: path.symlink_to(secret), lambda: os.mkfifo(path)):
        path.unlink()
        plant()
        assert (growth.new(), list(lines.said())) == (b"", [])


def test_of_a_file_without_end_a_part_is_read_at_each_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PIECE_BYTES", 2**10)
    path = tmp_path / "h0.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole, which takes no room
    lines = Lines(path)
    assert list(lines.said(3)) == []
    assert lines._growth._read == 3 * 2**10
    limited = Lines(path, most_bytes=100)
    assert list(limited.said(3)) == []
    assert limited._growth._read == 100
