"""The server of a synchronous trial whose sums are scheduled."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from testbed.base.errors import WorkerError
from testbed.workloads.kinds.fabric.processes.messages import Decided, Give, Gradient, Note, Weights
from testbed.workloads.kinds.fabric.processes.shared import Memory
from testbed.workloads.kinds.fabric_sync.processes import Root, RootDaemon, SumsServer, Voice
from testbed.workloads.serving.exchange import Floats

from .test_account import ROOTED, plan


def test_a_sum_stays_until_the_next_one_is_whole() -> None:
    """A worker that has its sum may send the next gradient before the last worker is given the same sum."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs, SumsServer(plan(), plan().server, {plan().scheduler: ours}, 3) as server:
        server.journal.expect([0, 1, 2, 3], [0, 0, 2, 2])
        for number, version in ((0, 0), (1, 0), (2, 2)):
            told = Gradient((number,), (version,), ((1.0, 1.0),), -1, 1)
            server._arrived(plan().workers[number % 2], told, np.full(3, 10.0**number, np.float32))
        given = server._state()
        assert (given.weights.tolist(), given.version, given.entries) == ([11.0] * 3, 2, 2)
        told = Gradient((3,), (2,), ((1.0, 1.0),), -1, 1)
        server._arrived(plan().workers[1], told, np.full(3, 1000.0, np.float32))
        given = server._state()
        assert (given.weights.tolist(), given.version, given.entries) == ([1100.0] * 3, 4, 4)


def test_a_root_tells_numbers_that_count_the_iterations_of_others() -> None:
    """It made no sum before that of iteration 4, and workers have gradients of four iterations behind them."""
    said: list[tuple[int, Note]] = []

    def say(node: int, note: Note, _floats: Floats | None) -> None:
        said.append((node, note))

    made, given = plan(ROOTED), np.full(2, 1.0, np.float32)
    with Root(made, 1, 2, Voice(say, lambda *_: None, lambda _due_s, action: action())) as root:
        root.journal.expect([13, 12, 14], [12, 12, 12])
        for number in (12, 13, 14):
            told = Gradient((number,), (12,), ((1.0, 1.0),), -1, 1)
            root.take(made.workers[number % 3], told, given)
        ((node, decided),) = said
        assert (node, isinstance(decided, Decided) and decided.version) == (made.scheduler, 15)
        root._give(Give((((0, 0.0, 1.0), ()),), ((0, 0.0, True),)))
        node, weights = said[-1]
        assert isinstance(weights, Weights)
        assert (node, weights.version, weights.begin, weights.begin_version) == (0, 15, 12, 12)
        assert [number for number, _ in weights.entries] == [13, 12, 14]
        with pytest.raises(WorkerError, match="were here before"):
            root.take(made.workers[number % 3], told, given)


def test_a_root_gets_sums_of_its_own_iterations_only() -> None:
    made, ones = plan(ROOTED), ((1.0, 1.0),)
    world, (ours, theirs), (worker, other) = len(made.workers), socket.socketpair(), socket.socketpair()
    first, another = (
        next(one for one in range(99) if (made.servers_at(one) == (2,)) == is_own) * world for is_own in (True, False)
    )
    with theirs, other, RootDaemon(made, 2, {0: ours}, worker, Memory.make(3)) as daemon:
        source = daemon._by_node[0]
        for members in ((first,), (first, first + 1), (another,)):
            fitting = Gradient(members, members, ones * len(members), 0, 1, norms=(0.0,) * len(members))
            assert daemon._room(source, fitting) is not None
        for members, versions, sums in (
            ((another, another + 1), (0, 0), 1),
            ((first,), (0,), 2),
            ((first,), (), 1),
            ((-1,), (0,), 1),
            ((), (), 1),
        ):
            norms = (0.0,) * len(members)
            with pytest.raises(WorkerError, match="does not expect it"):
                daemon._room(source, Gradient(members, versions, ones * len(members), 0, sums, norms=norms))
