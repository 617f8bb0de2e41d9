"""What a server does with what it is told, in whatever order that comes."""

from __future__ import annotations

import socket

import numpy as np

from topologies.build import build
from workloads.kinds.fabric.plan import Options, fabric
from workloads.kinds.fabric.processes.messages import Gradient, Order
from workloads.kinds.fabric.processes.server import Server

PLAN = fabric(build("star(hosts=4)", rate_bps=10**9), "test", Options(), 1)
"""Two workers, on nodes 0 and 1."""


def test_an_update_that_is_faster_than_the_order_is_applied_when_that_comes() -> None:
    weights = np.zeros(1, np.float32)

    def add(floats: np.ndarray[tuple[int], np.dtype[np.float32]], _is_sum: bool, _count: int) -> None:
        weights[:] += floats

    pairs = {node: socket.socketpair() for node in PLAN.met_by(PLAN.server)}
    ours = {node: one for node, (one, _) in pairs.items()}
    with Server(PLAN, PLAN.server, ours, (weights, add)) as server:
        told = Gradient((0,), (0,), ((1.0, 1.0),), -1, 1)
        server._came(server._by_node[0], told, np.full(1, 5.0, np.float32))
        assert weights == 0
        server._came(server._by_node[PLAN.scheduler], Order((0,), (0,), (1.0,)), None)
        assert weights == 5
    for _, other in pairs.values():
        other.close()
