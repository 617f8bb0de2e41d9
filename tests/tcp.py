"""What the kernel knows of a TCP connection."""

from __future__ import annotations

import socket

_CLOSED = 7
"""TCP_CLOSE, the first byte of ``struct tcp_info``."""


def is_reset(sock: socket.socket) -> bool:
    """Whether the kernel knows that the other end has thrown the connection away."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _CLOSED
