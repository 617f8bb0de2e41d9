"""Statistics of connections in a worker's samples."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from testbed.base.errors import WorkerError
from testbed.workloads.sync.neighbours import Neighbours


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        yield near, far


def receive(far: socket.socket, count: int) -> None:
    while count:
        count -= len(far.recv(count))


def test_bytes_are_those_since_the_last_look(ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    seen = Neighbours({4: near})
    for count in (300_000, 0, 20):
        near.sendall(bytes(count))
        receive(far, count)
        told = seen.look()
        assert told["sent_bytes_5"] == count
        assert 0 < told["rtt_s_5"] < 1
        assert 0 <= told["busy_s_5"] < 10


def test_a_rate_is_told_unless_the_application_limits_it() -> None:
    fields = {2: {}, 3: {"rate_bps_4": 8e6}}
    for node, expected in fields.items():

        class Known(socket.socket):
            limited = node == 2

            def getsockopt(self, *_: object) -> bytes:  # type: ignore[override]
                info = bytearray(256)
                info[7] = self.limited
                info[160:176] = struct.pack("=QQ", 1_000_000, 5_000)
                info[68:72] = (2_500).to_bytes(4, "little")
                return bytes(info)

        with Known() as sock:
            told = Neighbours({node: [sock]}).look()
        assert told == {f"sent_bytes_{node + 1}": 0, f"busy_s_{node + 1}": 0.0, f"rtt_s_{node + 1}": 0.0025, **expected}


def test_parallel_connections_to_a_neighbour_are_one(ends: tuple[socket.socket, socket.socket]) -> None:
    seen = Neighbours({0: ends})
    for near, far in (ends, ends[::-1]):
        near.sendall(bytes(1000))
        receive(far, 1000)
    told = seen.look()
    assert told["sent_bytes_1"] == 2000
    assert told.keys() <= {"sent_bytes_1", "busy_s_1", "rtt_s_1", "rate_bps_1"}


def test_a_kernel_that_measures_nothing_is_told() -> None:
    class Old(socket.socket):
        def getsockopt(self, *_: object) -> bytes:  # type: ignore[override]
            return bytes(100)

    with Old() as sock, pytest.raises(WorkerError, match="does not"):
        Neighbours({0: sock})
