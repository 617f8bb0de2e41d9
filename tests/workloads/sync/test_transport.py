"""Connections over loopback, and the texts of those that do not come about."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from testbed.base.errors import NeighbourError, PrivilegeError, TrialTimeoutError, WorkerError
from testbed.topologies.model import Topology
from testbed.workloads.job import Peer
from testbed.workloads.sync.reception import MOST_SILENT
from testbed.workloads.sync.schemes import build
from testbed.workloads.sync.transport import connect, connect_all
from tests import ports

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


def test_a_worker_has_a_connection_with_each_process_of_a_node() -> None:
    """Sockets come in the order of its peers, by which it tells the processes from each other."""
    at = {"h2.core0": next(PORTS), "h2.core1": next(PORTS)}
    heard: dict[str, bytes] = {}

    def core(name: str) -> None:
        with connect(2, [Peer(0, "127.0.0.1", "127.0.0.1", at[name], "h0")], NAMES, "reno", 10.0)[0] as sock:
            heard[name] = sock.recv(64)

    threads = [threading.Thread(target=core, args=(name,)) for name in at]
    for thread in threads:
        thread.start()
    peers = [Peer(2, "127.0.0.1", "127.0.0.1", port, name) for name, port in at.items()]
    sockets = connect_all(0, peers, NAMES, "reno", 10.0)
    for peer, sock in zip(peers, sockets[2], strict=True):
        with sock:
            sock.sendall(peer.process.encode())
    for thread in threads:
        thread.join(10)
    assert heard == {name: name.encode() for name in at}


def test_a_node_has_a_connection_from_each_of_its_nics() -> None:
    """All lead to one place, and come in the order of the peers at both ends."""
    port, nics = next(PORTS), ["127.0.0.1", "127.0.0.2"]
    heard: list[bytes] = []

    def listen() -> None:
        peers = [Peer(0, "127.0.0.3", nic, port) for nic in nics]
        for sock in connect_all(2, peers, NAMES, "reno", 10.0)[0]:
            with sock:
                heard.append(sock.recv(64))

    thread = threading.Thread(target=listen)
    thread.start()
    dialled = [Peer(2, nic, "127.0.0.3", port, bound=nic == "127.0.0.1") for nic in nics]
    for peer, sock in zip(dialled, connect_all(0, dialled, NAMES, "reno", 10.0)[2], strict=True):
        with sock:
            sock.sendall(peer.local.encode())
            device = sock.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).rstrip(b"\0")
            assert device == (b"lo" if peer.bound else b""), "the NIC that has the address"
    thread.join(10)
    assert heard == [nic.encode() for nic in nics]


def test_no_nic_has_the_address() -> None:
    with pytest.raises(WorkerError, match=r"127.0.0.2:0: Cannot assign requested address"):
        connect(0, [Peer(3, "127.0.0.2", "127.0.0.1", 9, bound=True)], NAMES, "reno", 0.2)


class Knocking:
    """Connects to a node that is about to listen, says something and stays; ``source`` is the address that it has."""

    def __init__(self, port: int, words: list[bytes], source: str = "127.0.0.1") -> None:
        self._port, self._words, self._source = port, words, source
        self._thread = threading.Thread(target=self._knock)
        self.sockets: list[socket.socket] = []

    def __enter__(self) -> Knocking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self.wait():
            sock.close()

    def wait(self) -> list[socket.socket]:
        """Until all has been said."""
        self._thread.join(10)
        return self.sockets

    def _knock(self) -> None:
        for word in self._words:
            sock = self._connected()
            self.sockets.append(sock)
            sock.sendall(word)

    def _connected(self) -> socket.socket:
        for _ in range(500):
            with suppress(ConnectionRefusedError):
                return socket.create_connection(("127.0.0.1", self._port), source_address=(self._source, 0))
            time.sleep(0.02)
        raise TimeoutError("nobody listens")


def h0(port: int) -> Peer:
    """The neighbour that h1 awaits."""
    return Peer(0, "127.0.0.1", "127.0.0.1", port)


HELLO = bytes(4)
"""Of h0."""


@pytest.mark.parametrize(
    "strangers",
    [[b""], [b"GET /"], [b"\0"], [b"\0\0\0\x07"], [b""] * (MOST_SILENT + 4)],
    ids=["silent", "garbage", "by halves", "another index", "many"],
)
def test_strangers_keep_no_neighbour_waiting(strangers: list[bytes], capfd: pytest.CaptureFixture[str]) -> None:
    """Though they connected before it, and from its address; and the worker's log tells of them."""
    port = next(PORTS)
    began = time.monotonic()
    with Knocking(port, [*strangers, HELLO]) as knocking:
        sockets = connect(1, [h0(port)], NAMES, "reno", 20.0)
        knocking.sockets[-1].sendall(b"rightful")
        assert sockets[0].recv(8) == b"rightful"
        sockets[0].close()
    assert time.monotonic() - began < 10
    assert f"strangers connected to 127.0.0.1:{port}: 127.0.0.1 (said " in capfd.readouterr().out


def is_closed(sock: socket.socket) -> bool:
    """Whether the other end was closed; with what was sent unread, that is a reset."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_stranger_from_another_address_is_no_neighbour_whatever_it_says() -> None:
    port = next(PORTS)
    with Knocking(port, [HELLO], "127.0.0.9") as knocking:
        with pytest.raises(TrialTimeoutError) as caught:
            connect(1, [h0(port)], NAMES, "reno", 1.0)
        assert is_closed(knocking.sockets[0])
    assert str(caught.value) == (
        f"no connection came from h0; strangers connected to 127.0.0.1:{port}: "
        "127.0.0.9 (no neighbour that is awaited)\n"
        "  fix: keep other programs off the ports of the trial; see whether the worker on h0 started, or wait longer "
        "(start_timeout of a spec)"
    )


@pytest.mark.parametrize(
    ("word", "told"),
    [(b"", "said nothing"), (b"\0\0", r"said no more than b'\x00\x00'"), (b"GET ", "said b'GET '")],
)
def test_strangers_are_named_where_no_neighbour_comes(word: bytes, told: str) -> None:
    port = next(PORTS)
    with Knocking(port, [word]), pytest.raises(TrialTimeoutError) as caught:
        connect(1, [h0(port)], NAMES, "reno", 1.0)
    assert f"strangers connected to 127.0.0.1:{port}: 127.0.0.1 ({told})" in caught.value.problem


def test_a_connection_that_comes_and_goes_is_named() -> None:
    port = next(PORTS)

    def pass_by() -> None:
        with Knocking(port, [b""]):
            pass

    passer_by = threading.Thread(target=pass_by)
    passer_by.start()
    with pytest.raises(TrialTimeoutError, match=r"127.0.0.1 \(said nothing and ended\)"):
        connect(1, [h0(port)], NAMES, "reno", 1.0)
    passer_by.join(10)


def test_silent_strangers_are_kept_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.workloads.sync.reception.SILENT_S", 0.1)
    port = next(PORTS)
    met: list[dict[int, socket.socket]] = []
    node = threading.Thread(target=lambda: met.append(connect(1, [h0(port)], NAMES, "reno", 20.0)))
    node.start()
    with Knocking(port, [b""]) as stranger:
        assert is_closed(stranger.wait()[0])
        assert not met
        with Knocking(port, [HELLO]):
            node.join(10)
    assert met[0].keys() == {0}
    met[0][0].close()


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
