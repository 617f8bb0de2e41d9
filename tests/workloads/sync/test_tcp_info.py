"""What the kernel says that it has sent."""

from __future__ import annotations

import socket

import pytest

from testbed.base.errors import WorkerError
from workloads.sync.cost import goodput
from workloads.sync.tcp_info import HEADERS_BYTES, Sent, sent


def test_both_ends_of_a_connection_are_counted() -> None:
    count = 500_000
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        near.sendall(b"x" * (count // 2))
        while count:
            count -= len(far.recv(count))
            if count == 250_000:
                near.sendall(b"x" * count)
        said, acknowledged = sent(near), sent(far)
    assert said.payload_bytes == 500_000
    assert said.wire_bytes >= 500_000 + 8 * HEADERS_BYTES  # packets of 64 KiB at most
    assert acknowledged.payload_bytes == 0
    assert acknowledged.wire_bytes >= 2 * HEADERS_BYTES
    assert acknowledged.wire_bytes % HEADERS_BYTES == 0


def test_what_goes_beyond_full_packets_is_extra() -> None:
    share = goodput(1500)
    full = Sent(100 * 1448, 100 * 1514)
    assert full.extra_bytes(share) == pytest.approx(0, abs=1e-6)
    again = full + Sent(0, 2 * 1514)
    assert again.extra_bytes(share) == pytest.approx(2 * 1514)
    acknowledgements = Sent(0, 50 * HEADERS_BYTES)
    assert (full + acknowledgements).extra_bytes(share) == pytest.approx(50 * HEADERS_BYTES)


def test_a_kernel_that_does_not_count_is_told() -> None:
    class Old(socket.socket):
        def getsockopt(self, *_: object) -> bytes:  # type: ignore[override]
            return bytes(192)

    with Old() as sock, pytest.raises(WorkerError, match="does not say what TCP sent again"):
        sent(sock)
