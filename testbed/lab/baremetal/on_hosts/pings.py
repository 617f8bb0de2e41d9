"""Round trips of small packets between hosts, of which one sends and the other sends back."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence

PATIENCE_S = 1.0
"""Seconds to wait for a packet that does not come back."""


class Echoes:
    """Sends packets back that come to some sockets, while the selector's owner calls what is registered there."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._sockets: list[socket.socket] = []

    def listen(self, sockets: Sequence[socket.socket]) -> list[int]:
        """Listen at these sockets, and no longer at others, which are closed; return the port of each."""
        for sock in self._sockets:
            self._selector.unregister(sock)
            sock.close()
        self._sockets = list(sockets)
        for sock in sockets:
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ, lambda sock=sock: sock.sendto(*sock.recvfrom(2048)))
        return [sock.getsockname()[1] for sock in self._sockets]


def bound(address: str) -> socket.socket:
    """Make a socket for such packets at an address, at any port."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((address, 0))
    return sock


def ping(local: str, remote: str, port: int, count: int) -> list[float]:
    """Send packets; round trips (s) of those that came back."""
    found: list[float] = []
    with bound(local) as sock:
        sock.connect((remote, port))
        sock.settimeout(PATIENCE_S)
        for number in range(count):
            sent_s = time.monotonic()
            try:
                sock.send(number.to_bytes(64, "big"))
                while int.from_bytes(sock.recv(64), "big") != number:
                    pass  # an earlier one, that came late
            except OSError:
                if not found:
                    break  # one that is not there answers none of them
                continue
            found.append(time.monotonic() - sent_s)
    return found
