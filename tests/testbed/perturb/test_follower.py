"""Files of other processes that are read as they grow, whatever these put into their place."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from testbed.perturb import follower
from testbed.perturb.follower import Follower, Growth


def test_what_grows_comes_in_pieces_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "PIECE_BYTES", 4)
    path = tmp_path / "a"
    growth = Growth(path)
    assert growth.new() == b""
    path.write_bytes(b"0123456789")
    assert growth.new() == b"0123"
    assert list(growth.rest()) == [b"4567", b"89"]
    assert list(growth.rest()) == []


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
    assert Follower(path).said() == []


def test_lines_that_make_no_sense_are_left_to_who_reads_them_all(tmp_path: Path) -> None:
    path = tmp_path / "h0.jsonl"
    right = json.dumps({"kind": "iteration", "i": 1}).encode()
    path.write_bytes(b"\n".join([b"[" * 100_000, b"5", b'{"a": 1}', b'{"kind": 5}', b"\xff", right, b'{"kind"']))
    assert Follower(path).said() == [{"kind": "iteration", "i": 1}]


def test_a_line_without_an_end_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "LONGEST_LINE_BYTES", 100)
    path = tmp_path / "h0.jsonl"
    one = Follower(path)
    with path.open("ab") as file:
        for _ in range(5):
            file.write(b"x" * 1000)
            file.flush()
            assert one.lines() == []
            assert len(one._rest) <= 100
        file.write(b'\n{"kind": "begin"}\n')
    assert one.said() == [{"kind": "begin"}]
