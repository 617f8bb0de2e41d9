"""Connections over loopback, and the texts of those that do not come about."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest

from testbed.errors import NeighbourError, PrivilegeError, TrialTimeoutError, WorkerError
from tests import ports
from topologies.model import Topology
from workloads.job import Peer
from workloads.sync.schemes import build
from workloads.sync.transport import connect

NAMES = ["h0", "h1", "h2", "s0"]
PORTS = ports.blocks(1)


def test_each_socket_leads_to_its_peer(
    topology: Callable[..., Topology], on_every_node: Callable[..., dict[int, object]]
) -> None:
    def work(node: int, sockets: dict[int, socket.socket]) -> object:
        for sock in sockets.values():
            sock.sendall(bytes([node]))
        option = [sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16) for sock in sockets.values()]
        assert {name.rstrip(b"\0") for name in option} == {b"reno"}
        return {peer: (sock.recv(1)[0], sock.getsockname()[0][-2:]) for peer, sock in sockets.items()}

    results = on_every_node(build("ps", topology("star(hosts=5)"), []), list(range(5)), work)
    assert results == {n: {p: (p, f".{n + 1}") for p in range(5) if p != n} for n in range(5)}


def test_nobody_answers() -> None:
    began = time.monotonic()
    with pytest.raises(TrialTimeoutError, match=r"h0 could not reach s0 at 127.0.0.1:9: Connection refused"):
        connect(0, [Peer(3, "127.0.0.1", "127.0.0.1", 9)], NAMES, "reno", 0.2)
    assert time.monotonic() - began < 5


def test_nobody_knocks() -> None:
    port = next(PORTS)
    with pytest.raises(TrialTimeoutError, match="no connection came from h0, h1"):
        connect(2, [Peer(peer, "127.0.0.1", "127.0.0.1", port) for peer in (0, 1)], NAMES, "reno", 0.2)


def test_a_stranger_knocks() -> None:
    port = next(PORTS)

    def knock() -> None:
        for _ in range(200):
            try:
                with socket.create_connection(("127.0.0.1", port)) as sock:
                    sock.sendall(b"GET ")
                return
            except ConnectionRefusedError:
                time.sleep(0.02)

    stranger = threading.Thread(target=knock)
    stranger.start()
    with pytest.raises(WorkerError, match=r"from 127.0.0.1 said b'GET ', which is none of h0"):
        connect(1, [Peer(0, "127.0.0.1", "127.0.0.1", port)], NAMES, "reno", 10.0)
    stranger.join(10)


def test_a_neighbour_that_comes_and_goes() -> None:
    port = next(PORTS)

    def knock() -> None:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.02)

    passer_by = threading.Thread(target=knock)
    passer_by.start()
    with pytest.raises(NeighbourError, match=r"a connection from 127.0.0.1 ended at once"):
        connect(1, [Peer(0, "127.0.0.1", "127.0.0.1", port)], NAMES, "reno", 10.0)
    passer_by.join(10)


@pytest.mark.parametrize("node", [0, 2])
def test_waiting_can_be_called_off(node: int) -> None:
    """By who dials a neighbour that does not answer, and by who waits for one that does not come."""
    began = time.monotonic()

    def called_off() -> None:
        if time.monotonic() > began + 0.2:
            raise NeighbourError("h7 has died")

    with pytest.raises(NeighbourError, match="h7 has died"):
        connect(node, [Peer(1, "127.0.0.1", "127.0.0.1", next(PORTS))], NAMES, "reno", 20.0, called_off)
    assert time.monotonic() - began < 5


def test_congestion_control_that_is_not_there() -> None:
    with pytest.raises(PrivilegeError, match="congestion control 'nonesuch': No such file or directory"):
        connect(0, [Peer(1, "127.0.0.1", "127.0.0.1", 9)], NAMES, "nonesuch", 1.0)


def test_an_address_of_another_host() -> None:
    with pytest.raises(WorkerError, match=r"cannot use 192.0.2.1:29397"):
        connect(1, [Peer(0, "192.0.2.1", "192.0.2.2", 29397)], NAMES, "reno", 1.0)
