"""Ports of benchmarks whose ranks meet on loopback."""

from __future__ import annotations

import socket

from benchmarks import collectives_vs_gloo
from tests import ports


def test_the_store_gets_ports_that_no_other_process_of_tests_or_benchmarks_takes() -> None:
    """At all addresses: the kernel gives none of them to whoever asks for any."""
    found = [collectives_vs_gloo.free_port() for _ in range(3)]
    assert len(set(found)) == 3
    assert all(ports.FIRST <= port < ports.LAST for port in found)
    for port in found:
        with socket.create_server(("", port)):
            pass
