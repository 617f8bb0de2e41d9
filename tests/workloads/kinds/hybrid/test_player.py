"""Hybrid iterations over real TCP: messages and sums of known values, waits, and what is told when a server is lost."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.base.errors import TrialTimeoutError, WorkerError
from testbed.topologies.model import Topology
from testbed.workloads.job import Compute
from testbed.workloads.kinds.hybrid.exchange import ExchangeEngine
from testbed.workloads.kinds.hybrid.plan import Plan, plan
from testbed.workloads.kinds.hybrid.player import Played, Player
from testbed.workloads.kinds.hybrid.worker import MessageValues, Replayer
from testbed.workloads.learning.replay import Values
from testbed.workloads.parallel.operators import Model, Operator, model
from testbed.workloads.parallel.strategy import Strategy, read
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.gate import NOTHING
from testbed.workloads.sync.groups import summed
from testbed.workloads.sync.schemes import build
from tests.processes import met
from tests.workloads.kinds.hybrid.test_hybrid_plan import SMALL

Build = Callable[..., Topology]
OnEveryNode = Callable[..., dict[int, object]]
Sockets = dict[int, socket.socket]
Works = Callable[[Player, Replayer, ExchangeEngine], object]
LIMIT_S = 30.0
EARLY_S, LATE_S = 0.05, 1.0
"""By how much a process may begin earlier than another, and how late a busy machine lets it go on."""
PAIR = model(Model("pair", (Operator("a", (), (400,), 100, 5), Operator("b", ("a",), (800,), 100, 1)), 10))


def on_servers(made: Plan, work: Works, pace_s: float = 0.0, limit_s: float = LIMIT_S) -> Callable[..., object]:
    """What each server does with its player."""
    table = cut(made.forest, made.gradient_floats, [(0, made.gradient_floats)], 1024)
    parts = summed(made.forest, table)

    def server(node: int, sockets: Sockets) -> object:
        messages = MessageValues(made.messages, node, seed=3)
        sums = Values(made.gradient_floats, 3, node, len(made.forest.workers), parts=parts)
        wires = {peer: sockets[peer] for peer in met(made, node)}
        engine = ExchangeEngine(node, made.forest, table, wires, sums.gradient, messages.buffers)
        engine.barrier(limit_s)
        known = Replayer(made, messages, sums)
        return work(Player(made, node, engine, known, Compute("paced", pace_s), limit_s), known, engine)

    return server


def iterations(count: int) -> Works:
    """Plays so many; returns wrong elements by iteration, how many sums and elements of messages were looked at, and
    bytes."""

    def work(player: Player, known: Replayer, engine: ExchangeEngine) -> object:
        for number in range(count):
            player.iteration(number, engine.start)
        known.finish()
        engine.barrier(LIMIT_S)
        return known.wrong, known.checked, known.messages.checked, engine.wire_bytes

    return work


@given(data=st.data())
@settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_arrives_as_it_was_sent(topology: Build, on_every_node: OnEveryNode, data: st.DataObject) -> None:
    """Whoever holds what: nothing hangs, no element is wrong, and servers send the plan's bytes and headers."""
    held = st.sets(st.integers(0, 4), min_size=1).map(lambda found: tuple(sorted(found)))
    holders = [data.draw(held) for _ in SMALL.operators[1:]]
    net = topology("star(hosts=5)")
    made = plan(net, SMALL, Strategy(5, (tuple(range(5)), *holders)))
    circuits = data.draw(st.integers(1, 3))
    found = on_every_node(build("ps", net, []), list(net.hosts), on_servers(made, iterations(3)), circuits=circuits)
    for node in net.hosts:
        result = found[node]
        assert isinstance(result, tuple), result
        wrong, sums, checked, wire_bytes = result
        assert (wrong, sums) == ({}, 3)
        came = sum(one.bytes // 4 for one in made.messages if one.dst == node and not one.is_local)
        assert checked == 3 * came
        sent = 3 * sum(count for src, _, count in made.flows if src == node)
        headers = wire_bytes - sent
        assert (
            0 <= headers <= 4 * (3 * (circuits * len(made.messages) + 2 * (len(made.forest.share) + sent / 1024)) + 40)
        )


def test_a_wrong_element_is_counted(topology: Build, on_every_node: OnEveryNode) -> None:
    """A server that sends the message of another iteration."""
    net = topology("star(hosts=2)")
    made = plan(net, SMALL, read(SMALL, 2, {"e0": [0], "rest": "all"}))

    def work(player: Player, known: Replayer, engine: ExchangeEngine) -> object:
        for number in range(2):
            player.iteration(2 * number, engine.start)
        return known.messages.wrong / known.messages.checked

    found = on_every_node(build("ps", net, []), [0, 1], on_servers(made, work))
    assert all(isinstance(share, float) and 0.4 < share < 0.5 for share in found.values()), found


def test_a_server_waits_for_what_others_compute(topology: Build, on_every_node: OnEveryNode) -> None:
    """``a`` is on server 0 and ``b`` on both; of a pace of 300 ms a forward pass of either takes 50 ms, a backward one
    100 ms, for each server whose samples it serves. So server 0 computes for 100 + 50 + 100 + 200 ms, and server 1
    waits for 100 ms before its own 50 + 100 ms. Then it has nothing to do, and the AllReduce waits for server 0."""
    net = topology("star(hosts=2)")
    made = plan(net, PAIR, read(PAIR, 2, {"a": [0], "b": "all"}))

    def work(player: Player, known: Replayer, engine: ExchangeEngine) -> object:
        del known
        player.iteration(0, engine.start)
        return player.iteration(1, engine.start)

    found = on_every_node(build("ps", net, []), [0, 1], on_servers(made, work, pace_s=0.3))
    first, second = found[0], found[1]
    assert isinstance(first, Played)
    assert isinstance(second, Played)
    assert first.ready_s - first.start_s >= 0.45
    assert second.ready_s - second.start_s >= 0.25 - EARLY_S
    assert second.mp_wait_s["forward"] >= 0.1 - EARLY_S
    assert second.mp_wait_s["backward"] < second.mp_wait_s["forward"] + LATE_S
    assert sum(first.mp_wait_s.values()) < 0.1 + LATE_S
    assert abs(first.sum_s - second.sum_s) < LATE_S


@pytest.mark.parametrize("gone", [True, False])
def test_who_is_lost_or_silent_is_named(topology: Build, on_every_node: OnEveryNode, gone: bool) -> None:
    """A server that ends, or does nothing, before it has sent the output of its operator. Words that say nothing, as
    gates send them, are no progress, however many come at once."""
    net = topology("star(hosts=2)")
    made = plan(net, PAIR, read(PAIR, 2, {"a": [0], "b": "all"}))

    def work(player: Player, known: Replayer, engine: ExchangeEngine) -> object:
        outgoing = known.messages.buffers.outgoing
        if outgoing and 1 in {to for to, _ in outgoing.values()}:
            if gone:
                engine.close()
                return None
            (wire,) = engine._connections
            for _ in range(1500):
                wire.push(NOTHING, memoryview(b""))
            for _ in range(8):
                wire.push(NOTHING, memoryview(b""))
                engine.poll(0.25)
            return None
        return player.iteration(0, engine.start)

    found = on_every_node(build("ps", net, []), [0, 1], on_servers(made, work, limit_s=1.0))[1]
    if gone:
        assert isinstance(found, WorkerError)
        assert str(found).startswith("lost the connection to h0: it was closed")
    else:
        assert isinstance(found, TrialTimeoutError)
        assert "it waits for messages from h0" in str(found)


def test_a_message_that_nobody_expects_is_told(topology: Build, on_every_node: OnEveryNode) -> None:
    net = topology("star(hosts=2)")
    made = plan(net, PAIR, read(PAIR, 2, {"a": [0], "b": "all"}))
    other = replace(made, messages=made.messages[:1])

    def server(node: int, sockets: Sockets) -> object:
        return on_servers(made if node == 0 else other, iterations(1), limit_s=1.0)(node, sockets)

    found = on_every_node(build("ps", net, []), [0, 1], server)
    assert any("and does not expect it" in str(one) for one in found.values()), found
