"""A server's part of a checkpoint, and what is read of one."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from testbed.base.errors import WorkerError
from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.fates import Fate
from testbed.workloads.kinds.fabric.journal import Journal, Step, Unit
from testbed.workloads.kinds.fabric.parts import MOST_SAVED_BYTES
from testbed.workloads.kinds.fabric.planning.planner import Planner, Work
from testbed.workloads.kinds.fabric.processes.messages import Back, Gone, Lost, Note, Resume
from testbed.workloads.kinds.fabric.processes.returned import Returned, Saved
from testbed.workloads.kinds.fabric.processes.server import Served, Survival
from testbed.workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a
from testbed.workloads.learning import checkpoint
from testbed.workloads.learning.checkpoint import Checkpoint, Keeper

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


@pytest.mark.parametrize("members", [1, 2, 5])
def test_what_is_saved_besides_weights_has_a_largest_size(members: int) -> None:
    """With the longest numbers that there can be: of a million updates, and 17 digits of shares."""
    shares = ((1.0000000000000002e-100, -1.0000000000000002e-100),)
    steps, came = [], []
    for first in range(10**6, 10**6 + 100 * members, members):
        numbers = tuple(range(first, first + members))
        unit = Unit(numbers, (first,) * members, False, shares * members)
        steps.append(Step(unit, Fate.AGGREGATED, first))
        came.append((4000, numbers, 2**40))
    size = len(Saved(tuple(steps), tuple(came)).encode())
    assert size <= MOST_SAVED_BYTES * (1 + 100 * members)


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


PLAN = mlfabric_a(build("star(hosts=6)", rate_bps=10**9), [1], aggregators=2, window=0)
"""Four workers."""


class Server(Returned):
    """Hears what a test says, and writes down what it tells the scheduler."""

    def __init__(self) -> None:
        sockets = {node: socket.socket() for node in PLAN.met_by(PLAN.server)}
        served = Served((np.zeros(1, np.float32),), lambda *_: None)
        super().__init__(PLAN, PLAN.server, sockets, served, Survival(60.0, 40))
        self.told: list[Note] = []
        self.resume(Saved(tuple(played().steps), ()), 1)

    def _say(self, node: int, note: Note, floats: object = None) -> None:  # noqa: ARG002 - nobody is there
        self.told += [note] if node == PLAN.scheduler else []

    def hear(self, node: int, note: Note) -> None:
        self._came(self._by_node[node], note, None)

    def find(self, *updates: int) -> None:
        for node, update in zip(PLAN.workers, updates, strict=True):
            self.hear(node, Back(update, 0.1))
        self.hear(PLAN.scheduler, Back(0, 0.2))


def test_what_was_answered_since_the_checkpoint_is_lost_and_who_waits_for_weights_gets_them() -> None:
    """Updates 0 to 3 are in the checkpoint. The second worker still waits, and the third one has been answered twice
    since."""
    with closing(Server()) as server:
        server.find(4, 1, 14, 7)
        kept = [(0, 0), (1, 1), (2, 1), (3, 2)]
        lost = [(6, Fate.LOST), (10, Fate.LOST)]
        resume = Resume(1, 4, 3, (1,), (*kept, *lost))
        assert server.told == [resume]
        server.hear(PLAN.workers[2], Lost(14))
        assert server.journal.entries[-1] == (14, Fate.LOST)
        (node, _, commit_s, updates) = server.said()["lost"][0]
        assert (node, commit_s, updates) == (PLAN.server, None, [(2, 1), (2, 2), (2, 3)])
        with pytest.raises(WorkerError, match="was here before"):
            server.hear(PLAN.workers[2], Lost(14))
    before = Planner(PLAN, Work(4.0, 40, 0.0, 1, 1.0))
    before.order = [0, 1, 2, 4, 6]
    planner = before.resumed(resume, 0.0)
    assert planner.order == [0, 1, 2]
    planner.ready(4, 3, 0.0, 0.0)
    said = planner.tick(0.0)
    assert {type(note).__name__ for _, note in said} >= {"Give"}


def test_a_worker_that_is_lost_before_all_are_back_is_not_waited_for() -> None:
    first, *_ = PLAN.workers
    with closing(Server()) as server:
        for node, update in zip(PLAN.workers, (4, 5, 6, 7), strict=True):
            server.hear(node, Back(update, 0.1))
        server._watch([*server._by_node], 60.0)
        server._lose(first)
        server.hear(PLAN.scheduler, Back(0, 0.2))
        resume = server.told[-1]
        assert isinstance(resume, Resume)
        assert server._turns
        assert 0 in server._turns._lost
    before = Planner(PLAN, Work(4.0, 40, 0.0, 1, 1.0))
    before.order = [0, 1, 2]
    before.lose(first, 0.0)
    before.tick(0.0)
    planner = before.resumed(resume, 0.0)
    assert (PLAN.server, Gone(first, ())) in planner.tick(0.0), "the new server is told as well"
    assert 0 in planner._turns._lost


@pytest.mark.parametrize("wrong", [(5, 1, 2, 3), (4, 1, 2, -1), (4, 1, 2, 4 * 41 + 3)])
def test_a_worker_that_is_nowhere_is_refused(wrong: tuple[int, ...]) -> None:
    with closing(Server()) as server, pytest.raises(WorkerError, match="updates at the checkpoint"):
        server.find(*wrong)
