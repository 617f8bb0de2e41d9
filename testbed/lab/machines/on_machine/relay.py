"""Connections of processes on this machine to a Unix socket of the controller: a socket here in its place, and their
messages as lines of the agent (:mod:`testbed.lab.machines.controller.relay`)."""

from __future__ import annotations

import base64
import selectors
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path

from testbed.lab.baremetal.on_hosts.processes import tell
from testbed.lab.base import MOST_RELAYED_BYTES
from testbed.workloads.sync.gate import beside

MOST_AT_ONCE = 1000
"""The most messages of a process that are told before the agent does something else. They are more than its socket
holds, so all are told of a process that has ended; one that means harm sends more and more."""
MOST_SOCKETS, MOST_IN_ALL = 800, 10_000
"""The most connections at a time, each an open file of the agent, and in all: those beyond are closed at once."""


class Relay:
    """Connections to one socket at a time, by the numbers that the controller knows them by.

    Args:
        selector: one whose owner calls what is registered there.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._listener: socket.socket | None = None
        self._sockets: dict[int, socket.socket] = {}
        self._next = 0

    def listen(self, path: Path) -> None:
        """Listen at ``path``, and no longer elsewhere. Raises OSError: the system refuses."""
        self.close()
        self._listener = beside(path, connect=False)
        self._listener.setblocking(False)
        self._next = 0
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def hear(self) -> None:
        """Tell all that processes have said so far."""
        self._accept()
        for number in list(self._sockets):
            self._tell(number)

    def say(self, number: int, message: bytes) -> None:
        """Send a message to a process, unless it has ended; an empty one ends its connection."""
        sock = self._sockets.get(number)
        if sock is None:
            return
        if not message:
            self._end(number)
            return
        with suppress(OSError):  # it has ended, which is heard
            sock.send(message, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)

    def close(self) -> None:
        """End all connections, and listen no more."""
        for number in list(self._sockets):
            self._end(number)
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
        self._listener = None

    def _accept(self) -> None:
        if self._listener is None:
            return
        with suppress(BlockingIOError):
            for _ in range(MOST_AT_ONCE):
                sock, _ = self._listener.accept()
                if len(self._sockets) == MOST_SOCKETS or self._next == MOST_IN_ALL:
                    sock.close()
                    continue
                sock.setblocking(False)
                number, self._next = self._next, self._next + 1
                self._sockets[number] = sock
                self._selector.register(sock, selectors.EVENT_READ, partial(self._tell, number))

    def _tell(self, number: int) -> None:
        """Tell what a process has said, and, if it has closed its connection, that."""
        for _ in range(MOST_AT_ONCE):
            sock = self._sockets.get(number)
            if sock is None:
                return
            try:
                message = sock.recv(MOST_RELAYED_BYTES)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                self._end(number)
            tell(socket=number, message=base64.b64encode(message).decode())

    def _end(self, number: int) -> None:
        sock = self._sockets.pop(number)
        self._selector.unregister(sock)
        sock.close()
