"""Following what another process writes, whatever it puts there."""

from __future__ import annotations

import os
from pathlib import Path

from testbed.perturb.follower import PIECE_BYTES, Follower, Growth


def test_growth_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a"
    growth = Growth(path)
    assert growth.new() == b""
    path.write_bytes(b"x" * (2 * PIECE_BYTES + 1))
    assert [len(growth.new()) for _ in range(4)] == [PIECE_BYTES, PIECE_BYTES, 1, 0]


def test_a_link_or_a_pipe_is_not_followed(tmp_path: Path) -> None:
    path, secret = tmp_path / "a", tmp_path / "secret"
    secret.write_text("secret\n")
    path.write_text("one\ntw")
    growth, lines = Growth(path), Follower(path)
    assert (growth.new(), lines.lines()) == (b"one\ntw", [b"one"])
    for plant in (lambda: path.symlink_to(secret), lambda: os.mkfifo(path)):
        path.unlink()
        plant()
        assert (growth.new(), lines.lines()) == (b"", [])
