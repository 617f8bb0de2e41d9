"""What a daemon does with weights that come twice, and with its updates when another process is lost."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from testbed.topologies.build import build
from testbed.workloads.kinds.fabric.processes.daemon import Daemon
from testbed.workloads.kinds.fabric.processes.messages import Gone, Gradient, Note, Push, Send, Weights
from testbed.workloads.kinds.fabric.processes.shared import Memory
from testbed.workloads.kinds.fabric.schemes.mlfabric_a import mlfabric_a

from .tcp import connected

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


@pytest.mark.parametrize("by_scheduler", [True, False])
def test_once_the_server_feeds_the_replica_a_daemon_keeps_nothing_for_it(*, by_scheduler: bool) -> None:
    """Another daemon is lost, or the scheduler. The update goes to the server all the same, with its norm."""
    plan = mlfabric_a(build("star(hosts=7)", rate_bps=10**9), [1], aggregators=1, window=0, divergence_updates=2)
    node = next(one for one in plan.workers if one not in (*plan.aggregators, *plan.replica_aggregators))
    lost = plan.replica_aggregators[0] if by_scheduler else plan.scheduler
    worker, program = socket.socketpair()
    pairs = {peer: connected() for peer in plan.met_by(node)}
    daemon = Daemon(plan, node, {peer: pair[0] for peer, pair in pairs.items()}, worker, Memory.make(2), 0.0, 60.0)
    told: list[tuple[int, Note]] = []
    daemon._say = lambda to, note, _floats=None: told.append((to, note))  # type: ignore[method-assign]
    try:
        daemon._watch(daemon._losable_nodes, 60.0)
        assert plan.server in daemon._losable
        daemon._came(daemon._by_node[node], Push(0, 0, 2.5), None)
        assert daemon._kept
        scheduler = daemon._by_node[plan.scheduler]
        for target in (plan.replica or 0, plan.server):
            daemon._came(scheduler, Send(node, target, 0.0, 0.0, -1), None)
        if by_scheduler:
            daemon._came(scheduler, Gone(lost, ()), None)
            daemon._do_without(lost)
        else:
            daemon._lose(lost)
        daemon._move()
        sent = [(to, note) for to, note in told if isinstance(note, Gradient)]
        assert sent == [(plan.server, Gradient((node,), (0,), ((1.0, 1.0),), -1, 1, norms=(2.5,)))]
        assert not daemon._kept
        assert plan.server not in daemon._losable, "its replica cannot serve any more"
    finally:
        daemon.close()
        program.close()
        for _, other in pairs.values():
            other.close()
