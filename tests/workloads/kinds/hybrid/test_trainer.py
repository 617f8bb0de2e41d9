"""Servers that train together over real TCP come to the weights of one process, whoever holds what."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from testbed.evidence.sum_check import compared
from testbed.topologies.model import Topology
from testbed.workloads.job import Compute, Training
from testbed.workloads.kinds.hybrid.exchange import ExchangeEngine, Floats
from testbed.workloads.kinds.hybrid.plan import Plan, plan
from testbed.workloads.kinds.hybrid.player import Player
from testbed.workloads.kinds.hybrid.program.layout import collected
from testbed.workloads.kinds.hybrid.trainer import Sketches, Trainer
from testbed.workloads.learning.reference import judged
from testbed.workloads.parallel.strategy import read
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.schemes import build
from tests.processes import met
from tests.workloads.kinds.hybrid.program.in_process import operators, task

Build = Callable[..., Topology]
OnEveryNode = Callable[..., dict[int, object]]
LIMIT_S = 30.0
PLACED = {
    "dlrm_tiny": {"e0": [0], "e1": [1], "e2": [2], "e3": [2], "e4": [0, 1], "rest": "all"},
    "candle_tiny": {"drug0": [0, 1], "drug1": [0, 1], "cell0": [2], "cell1": [2], "rest": "all"},
}


def on_servers(asked: Training, made: Plan, compute: Compute) -> Callable[..., object]:
    """What each server does: it trains, and returns what it saves, its losses and the bytes that it sent."""
    table = cut(made.forest, made.gradient_floats, [(0, made.gradient_floats)], 2**16)

    def work(node: int, sockets: Mapping[int, socket.socket]) -> object:
        trained = Trainer(asked, made, node)
        wires = {peer: sockets[peer] for peer in met(made, node)}
        engine = ExchangeEngine(node, made.forest, table, wires, trained.gradient, trained.buffers)
        player = Player(made, node, engine, trained, compute, LIMIT_S)
        engine.barrier(LIMIT_S)
        losses = []
        for number in range(asked.iterations):
            player.iteration(number, engine.start)
            losses.append(trained.loss)
        trained.finish()
        engine.barrier(LIMIT_S)
        return trained, losses, engine.wire_bytes

    return work


@pytest.mark.parametrize("name", [*PLACED])
def test_over_connections_it_is_training_in_one_process(topology: Build, on_every_node: OnEveryNode, name: str) -> None:
    asked = task(name, batch=8, iterations=4)
    net = topology("star(hosts=3)")
    model = operators(asked)
    made = plan(net, model, read(model, 3, PLACED[name]))
    found = on_every_node(build("ps", net, []), [0, 1, 2], on_servers(asked, made, Compute("real")))
    files: list[Floats] = []
    own: list[Sketches] = []
    summed: list[Sketches] = []
    for server in range(3):
        result = found[server]
        assert isinstance(result, tuple), result
        trained, losses, wire_bytes = result
        assert isinstance(trained, Trainer)
        files.append(trained.saved())
        own.append(trained.own)
        summed.append(trained.summed)
        assert np.isfinite(losses).all()
        least = asked.iterations * sum(count for src, _, count in made.flows if src == server)
        assert least <= wire_bytes <= 1.01 * least + 2000  # headers
    whole = collected(made.model, made.strategy, files)
    assert not whole.differing
    verdict = judged(whole.weights, asked, ((0, 3),))
    assert verdict["training_error"] < 1e-5
    for number in range(asked.iterations):
        whole_sum = np.sum([told[number] for told in summed if told], axis=0).tolist()
        error, allowed = compared([told[number] for told in own], whole_sum)
        assert error <= allowed
