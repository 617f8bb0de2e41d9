"""What a server does with what it is told, in whatever order that comes."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.plan import Options, fabric
from testbed.workloads.kinds.fabric.processes.messages import Decided, Give, Gradient, Order, encode
from testbed.workloads.kinds.fabric.processes.server import Served, Server
from testbed.workloads.learning.checkpoint import Keeper

PLAN = fabric(build("star(hosts=4)", rate_bps=10**9), "test", Options(), 1)
"""Two workers, on nodes 0 and 1."""


def test_an_update_that_is_faster_than_the_order_is_applied_when_that_comes() -> None:
    weights = np.zeros(1, np.float32)

    def add(floats: np.ndarray[tuple[int], np.dtype[np.float32]], _is_sum: bool, _count: int) -> None:
        weights[:] += floats

    pairs = {node: socket.socketpair() for node in PLAN.met_by(PLAN.server)}
    ours = {node: one for node, (one, _) in pairs.items()}
    with Server(PLAN, PLAN.server, ours, Served((weights,), add)) as server:
        told = Gradient((0,), (0,), ((1.0, 1.0),), -1, 1)
        server._came(server._by_node[0], told, np.full(1, 5.0, np.float32))
        assert weights == 0
        server._came(server._by_node[PLAN.scheduler], Order((0,), (0,), (1.0,)), None)
        assert weights == 5
    for _, other in pairs.values():
        other.close()


def test_what_was_decided_before_a_checkpoint_is_sent_while_it_is_written() -> None:
    """The scheduler is told of the update, and a worker gets weights of which the kernel had taken only a part."""
    floats = 2**20
    pairs = {node: socket.socketpair() for node in PLAN.met_by(PLAN.server)}
    theirs = {node: one for node, (_, one) in pairs.items()}
    got = dict.fromkeys(theirs, b"")

    class Slow(Keeper):
        """Writes until all is there, if that may take as many looks as it takes at most."""

        def after(self, done: int, meanwhile: Callable[[], None] = lambda: None) -> bool:
            for _ in range(4 * floats // 2**10):
                meanwhile()
                for node, one in theirs.items():
                    with suppress(BlockingIOError):
                        got[node] += one.recv(2**20, socket.MSG_DONTWAIT)
            return super().after(done, meanwhile)

    weights = np.zeros(floats, np.float32)
    ours = {node: one for node, (one, _) in pairs.items()}
    with Server(PLAN, PLAN.server, ours, Served((weights,), lambda *_: None)) as server:
        server.keeper = Slow(None, lambda: weights)
        scheduler = server._by_node[PLAN.scheduler]
        server._came(scheduler, Give((((0, 0.0, 0.0), ()),), ((0, 0.0, True),)), None)
        server._move()
        assert server._by_node[0].sending, "the kernel has no room for all weights"
        server._came(scheduler, Order((0,), (0,), (1.0,)), None)
        server._came(server._by_node[0], Gradient((0,), (0,), ((1.0, 1.0),), -1, 1), weights)
        assert len(got[0]) > 4 * floats
        assert encode(Decided(((0, 0),), 1)) in got[PLAN.scheduler]
    for one in theirs.values():
        one.close()
