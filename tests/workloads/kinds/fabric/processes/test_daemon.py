"""What a daemon does with weights that come twice."""

from __future__ import annotations

import socket

import numpy as np

from topologies.build import build
from workloads.kinds.fabric.processes.daemon import Daemon
from workloads.kinds.fabric.processes.messages import Push, Weights
from workloads.kinds.fabric.processes.shared import Memory
from workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a

PLAN = mlfabric_a(build("star(hosts=6)", rate_bps=10**9), [1], aggregators=2, window=0)


def test_weights_that_two_neighbours_send_at_the_same_time_stay_apart() -> None:
    node, passing = PLAN.workers[:2]
    pairs = {peer: socket.socketpair() for peer in (passing, PLAN.server, PLAN.scheduler)}
    worker, program = socket.socketpair()
    memory = Memory.make(2)
    daemon = Daemon(PLAN, node, {peer: pair[0] for peer, pair in pairs.items()}, worker, memory, 0.0, loss_s=60.0)
    try:
        daemon._came(daemon._by_node[node], Push(0, 0, 1.0), None)
        note = Weights(1, 0, 0, ((node, 0),), ((node, 0.0, True),), ())
        both = [(daemon._by_node[peer], note) for peer in (passing, PLAN.server)]
        first, second = (daemon._room(connection, told) for connection, told in both)
        assert first is not None
        assert second is not None
        first[:], second[:1] = 1.0, 2.0  # of the second, a part is there
        daemon._came(*both[0], first)
        assert np.array_equal(memory.weights, [1.0, 1.0])
        second[:] = 2.0
        daemon._came(*both[1], second)
        assert np.array_equal(memory.weights, [1.0, 1.0]), "the worker has got its weights"
    finally:
        daemon.close()
        program.close()
        for _, other in pairs.values():
            other.close()
