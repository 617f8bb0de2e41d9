"""The server of a synchronous trial whose sums are scheduled."""

from __future__ import annotations

import socket

import numpy as np

from workloads.kinds.fabric.processes.messages import Gradient
from workloads.kinds.fabric_sync.processes import SumsServer

from .test_account import plan


def test_a_sum_stays_until_the_next_one_is_whole() -> None:
    """A worker that has its sum may send the next gradient before the last worker is given the same sum."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs, SumsServer(plan(), {plan().scheduler: ours}, 3) as server:
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
