"""What the kernel says that it has sent."""

from __future__ import annotations

import socket
import time

import pytest

from testbed.base.errors import WorkerError
from testbed.workloads.sync.cost import goodput
from testbed.workloads.sync.tcp_info import HEADERS_BYTES, Sent, room_bytes, sent, unacknowledged_bytes
from tests.patience import until


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

    with Old() as sock:
        with pytest.raises(WorkerError, match="does not say what TCP sent again"):
            sent(sock)
        with pytest.raises(WorkerError, match="does not say for how much a neighbour has room"):
            room_bytes(sock)


def test_room_is_what_the_other_end_takes_without_reading() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        near.setblocking(False)
        count, end_s = 0, time.monotonic() + 2
        # It grows at first. A full receiver may go on to round its window up to one unit, and trickles for ever.
        while ((room := room_bytes(near)) or unacknowledged_bytes(near)) and time.monotonic() < end_s:
            count += near.send(bytes(room))
        assert count > 10_000
        near.send(bytes(2**16))  # for which there is no room
        time.sleep(0.05)
        assert unacknowledged_bytes(near)
        far.close()  # with bytes unread, so a reset
        until(lambda: not unacknowledged_bytes(near))
    assert not unacknowledged_bytes(near)
