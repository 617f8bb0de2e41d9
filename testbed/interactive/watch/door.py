"""The connections of ``testbed watch``: how many there may be, and for how long they may be silent.

Any user of the machine can connect to a port of loopback. So connections are few, those that complete no request are
closed after a while, and a new connection takes the place of the oldest one that has not shown the token yet. Where the
process has no descriptor left, it waits before it accepts the next connection: without that, the loop would try again
at once, for ever, with a traceback each time.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream

MOST_CONNECTIONS = 64
SILENT_S = 5.0
"""Seconds after which a connection is closed if no whole request has come. The browser's page asks every 2 s, and
connects again if it has to."""
PAUSE_S = 1.0
"""Seconds for which nobody is let in after the kernel refused to accept a connection."""


class Door:
    """Door that lets connections in to a server; use in one event loop."""

    def __init__(self, server: HTTPServer, most: int = MOST_CONNECTIONS) -> None:
        self._server, self._most = server, most
        self._streams: dict[IOStream, bool] = {}
        """Whether each connection has shown the token, oldest first."""
        self._sockets: list[socket.socket] = []

    def open(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections of listening sockets, which do not block."""
        self._sockets += sockets
        for listener in sockets:
            self._listen(listener)

    def close(self) -> None:
        """Accept no more connections."""
        for listener in self._sockets:
            IOLoop.current().remove_handler(listener)
            listener.close()
        self._sockets.clear()

    def know(self, stream: IOStream) -> None:
        """Keep a connection, which has shown the token, when others come."""
        if stream in self._streams:
            self._streams[stream] = True

    def _listen(self, listener: socket.socket) -> None:
        if listener in self._sockets:
            IOLoop.current().add_handler(listener, self._accept, IOLoop.READ)

    def _accept(self, listener: Any, _events: int) -> None:
        try:
            connection, address = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # of descriptors or memory there are none left (accept(2))
            IOLoop.current().remove_handler(listener)
            IOLoop.current().call_later(PAUSE_S, partial(self._listen, listener))
            return
        self._streams = {stream: known for stream, known in self._streams.items() if not stream.closed()}
        if len(self._streams) >= self._most and not self._make_room():
            connection.close()
            return
        stream = IOStream(connection)
        self._streams[stream] = False
        self._server.handle_stream(stream, address)

    def _make_room(self) -> bool:
        """Close the oldest connection that has not shown the token; return whether there was one."""
        oldest = next((stream for stream, known in self._streams.items() if not known), None)
        if oldest is None:
            return False
        del self._streams[oldest]
        oldest.close()
        return True
