"""Bytes of the store, by the kernel's counts of this process's connections."""

from __future__ import annotations

import os
import socket

import pytest

from testbed.workloads.kinds.script.engine.store import sent
from testbed.workloads.sync.tcp_info import HEADERS_BYTES


def _socket(family: socket.AddressFamily, host: str) -> socket.socket:
    found = socket.socket(family)
    if family == socket.AF_INET6:  # with an IPv4 address, as PyTorch's
        found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        host = f"::ffff:{host}"
    found.bind((host, 0))
    return found


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_what_a_connection_of_the_store_sent_is_on_the_wire_only(family: socket.AddressFamily) -> None:
    with _socket(family, "127.0.0.1") as server, _socket(family, "127.0.0.2") as theirs:
        server.listen()
        theirs.connect(server.getsockname()[:2])
        ours, _ = server.accept()
        with ours:
            ours.sendall(bytes(5000))
            theirs.setblocking(False)
            port = server.getsockname()[1]
            found = sent(port, {"127.0.0.2": 7})
            assert [*found] == [7]
            assert found[7].payload_bytes == 0
            assert found[7].wire_bytes >= 5000 + HEADERS_BYTES
            assert sent(port, {"127.0.0.3": 7}) == sent(port + 1, {"127.0.0.2": 7}) == {}
            assert not os.get_blocking(theirs.fileno())
            assert os.get_blocking(ours.fileno())


def test_a_default_timeout_of_the_script_changes_no_connection() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.setdefaulttimeout(1.0)
        try:
            assert sent(1, {}) == {}
        finally:
            socket.setdefaulttimeout(None)
        assert os.get_blocking(ours.fileno())
