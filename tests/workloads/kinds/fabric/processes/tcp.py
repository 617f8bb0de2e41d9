"""Connections of processes that a test holds."""

from __future__ import annotations

import socket


def connected() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection, for the kernel counts the bytes of one that is lost."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return socket.create_connection(listener.getsockname()), listener.accept()[0]
