"""Parallel circuits: several connections with a neighbour, each with its own address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from testbed.base.errors import WorkerError
from testbed.topologies.model import Topology
from testbed.workloads.job import Peer
from testbed.workloads.sync.bundle import bundles
from testbed.workloads.sync.chunks import cut
from testbed.workloads.sync.engine import Engine
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.transport import connect_all

from ... import ports

Build = Callable[..., Topology]
PORTS = ports.blocks(1)
Ends = tuple[list[socket.socket], list[socket.socket]]
LIMIT_S = 30.0


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Three connections, by node."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = [socket.create_connection(listener.getsockname()) for _ in range(3)]
        pairs = [(one, listener.accept()[0]) for one in dialled]  # accepted in the order of dialling
    yield [a for a, _ in pairs], [b for _, b in pairs]
    for pair in pairs:
        for sock in pair:
            sock.close()


def test_circuits_carry_the_same_to_a_message(ends: Ends) -> None:
    (bundle,) = bundles(["h0", "h1"], {1: ends[0]}, ordered=False).values()
    for size in [40, 8, 100, 4, 60, 60, 12]:
        bundle.push(0, memoryview(bytes(size)))
    for connection in bundle.connections:
        while connection.sending:
            connection.flush()
    sent = [connection.sent_bytes for connection in bundle.connections]
    assert sum(sent) == 7 * 4 + 284
    assert max(sent) - min(sent) <= 104


@pytest.mark.parametrize("priority", [False, True])
def test_sums_are_right_over_several_connections(topology: Build, ends: Ends, priority: bool) -> None:
    forest = build("ring", topology("star(hosts=2)"), [])
    table = cut(forest, 60_000, [(30_000, 60_000), (0, 30_000)], 4096)
    found: dict[int, object] = {}

    def member(node: int) -> None:
        gradient = np.empty(60_000, np.float32)
        wrong = 0
        with Engine(node, forest, table, {1 - node: ends[node]}, gradient, priority=priority) as engine:
            for i in range(20):
                gradient[:] = np.arange(60_000) % 100 + i + node
                for bucket in range(2):
                    engine.start(bucket)
                engine.wait(LIMIT_S)
                wrong += np.count_nonzero(gradient != 2 * (np.arange(60_000) % 100 + i) + 1)
                engine.barrier(LIMIT_S)
            sizes = [connection.sent_bytes for connection in engine._connections]
        found[node] = wrong, max(sizes) - min(sizes) <= 4100

    threads = [threading.Thread(target=member, args=(node,), daemon=True) for node in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert found == dict.fromkeys((0, 1), (0, True))


def test_a_neighbour_is_lost_when_its_last_connection_is(topology: Build, ends: Ends) -> None:
    forest = build("ring", topology("star(hosts=2)"), [])
    engine = Engine(0, forest, cut(forest, 8, [(0, 8)], 16), {1: ends[0]}, np.zeros(8, np.float32))
    for sock in ends[1][:2]:
        sock.close()
    engine._expect(1)
    engine.poll(0.0)
    ends[1][2].close()
    with pytest.raises(WorkerError, match="lost the connection to h1"):
        engine.poll(0.1)


def test_each_connection_has_its_own_addresses() -> None:
    port = next(PORTS)
    places = [("127.0.0.1", "127.0.0.2"), ("127.0.1.1", "127.0.1.2")]
    peers = {
        0: [Peer(1, low, high, port) for low, high in places],
        1: [Peer(0, high, low, port) for low, high in places],
    }
    found: dict[int, list[tuple[str, str]]] = {}

    def member(node: int) -> None:
        ((_, sockets),) = connect_all(node, peers[node], ["h0", "h1"], "reno", 20.0).items()
        found[node] = [(sock.getsockname()[0], sock.getpeername()[0]) for sock in sockets]
        for sock in sockets:
            sock.close()

    threads = [threading.Thread(target=member, args=(node,)) for node in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert found == {0: places, 1: [place[::-1] for place in places]}
