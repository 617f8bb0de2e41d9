"""A server's part of a checkpoint, and what is read of one."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import WorkerError
from workloads import checkpoint
from workloads.checkpoint import Checkpoint, Keeper
from workloads.kinds.fabric.fates import Fate
from workloads.kinds.fabric.journal import Journal, Unit
from workloads.kinds.fabric.processes.returned import Saved

FAST = 1e12


def played() -> Journal:
    """One update straight, a sum of two, and one that is dropped; the next two are expected."""
    journal = Journal(5)
    journal.expect([0, 1, 2, 4, 5], [0, 0, 0, 1, 1])
    journal.arrive(Unit((0,), (0,), False))
    journal.arrive(Unit((1, 2), (0, 0), True, ((1.0, 1.0), (0.5, 1.0))))
    while journal.next() is not None:
        pass
    journal.drop(3, 0)
    return journal


def test_what_is_saved_is_read_again_and_the_journal_goes_on() -> None:
    before = played()
    saved = Saved(tuple(before.steps), ((0, (0,), 8), (1, (1, 2), 16)))
    assert Saved.decode(saved.encode()) == saved
    after = Journal(5)
    after.resume(saved.steps)
    assert (after.entries, after.version) == (before.entries, 3)
    after.lose(4)
    after.expect([5], [1])
    after.arrive(Unit((5,), (1,), False))
    step = after.next()
    assert step is not None
    assert after.entries[-2:] == [(4, Fate.LOST), (5, Fate.DIRECT)]
    assert after.version == 4
    for number in (0, 4):
        with pytest.raises(ValueError, match="is lost, and was here before"):
            after.lose(number)
    assert not after.arrive(Unit((4,), (1,), False))


@pytest.mark.parametrize(
    "wrong", [b"", b"[]", b"{}", b'{"steps": [[9, 0, [0], [0], false, []]], "received": []}', b"[" * 9999]
)
def test_what_a_server_cannot_have_saved_is_refused(wrong: bytes) -> None:
    with pytest.raises(WorkerError, match="besides weights cannot be read"):
        Saved.decode(wrong)


def written(path: Path) -> Path:
    weights, velocity = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    keeper = Keeper(Checkpoint(2, FAST, str(path), 9), lambda: weights, lambda: velocity.tobytes() + b"more", 3)
    assert not keeper.after(3)
    assert keeper.after(4)
    return path


def test_a_checkpoint_is_read_again(tmp_path: Path) -> None:
    (weights, velocity), more = checkpoint.read(written(tmp_path / "checkpoint"), 3, 2)
    assert (weights.tolist(), velocity.tolist(), more) == ([0, 1, 2], [1, 1, 1], b"more")


def test_what_is_no_checkpoint_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "checkpoint")
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    for name, floats in (("link", 3), ("pipe", 3), ("none", 3), ("checkpoint", 5)):
        with pytest.raises(WorkerError, match=f"cannot go on from the checkpoint {name}"):
            checkpoint.read(tmp_path / name, floats, 2)
    monkeypatch.setattr(checkpoint, "MOST_MORE_BYTES", 3)
    with pytest.raises(WorkerError, match="it has 28 bytes, and 24 are its weights"):
        checkpoint.read(path, 3, 2)
