"""What the kernel tells of connections, in the namespace of these tests."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing

from testbed.lab.netns.readings.streams import Streams


def test_a_new_connection_is_known_at_once() -> None:
    with ExitStack() as opened:
        server = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = server.getsockname()[1]
        streams = opened.enter_context(closing(Streams(range(port, port + 1))))
        assert streams.read() == []
        for count in (1, 2):  # the second one well within the second after a listing
            client = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            opened.enter_context(server.accept()[0])
            client.sendall(bytes(1000))
            found = streams.read()
            assert len(found) == 2 * count
            own = client.getsockname()[1]
            (sent,) = (one for one in found if one.ports == (own, port))
            assert sent.sent_bytes > 1000
            assert (port, own) in {one.ports for one in found}
