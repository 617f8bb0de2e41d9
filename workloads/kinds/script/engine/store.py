"""Bytes of the store of ``torch.distributed``, which the first rank serves and the others ask over the trial's links.

PyTorch opens these connections in C++ and tells nobody of them. So they are looked for among the process's open files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from socket import AF_INET, AF_INET6, IPPROTO_TCP, SOCK_STREAM, TCP_INFO, socket

from testbed.workloads.sync.tcp_info import BYTES, Sent, read

_FILES = Path("/proc/self/fd")
_MAPPED = "::ffff:"
"""Prefix of an IPv4 address in a socket of IPv6, as PyTorch opens them."""


def sent(port: int, nodes: Mapping[str, int]) -> dict[int, Sent]:
    """Count what this process has sent over connections with the store's port at one end, by the node of the other end;
    ``nodes`` has nodes by address. None of it is of an array, so all of it is on the wire only."""
    found: dict[int, Sent] = {}
    for sock in _sockets():
        with suppress(OSError):  # it listens
            own, other = sock.getsockname(), sock.getpeername()
            node = nodes.get(other[0].removeprefix(_MAPPED))
            if node is not None and port in (own[1], other[1]):
                told, _ = read(sock.getsockopt(IPPROTO_TCP, TCP_INFO, BYTES))
                found[node] = found.get(node, Sent()) + Sent(0, told.wire_bytes)
    return found


def _sockets() -> Iterator[socket]:
    """Yield copies of the sockets of TCP that this process has open."""
    for path in _FILES.iterdir():
        with suppress(OSError):  # it was closed meanwhile
            if not path.readlink().name.startswith("socket:"):
                continue
            descriptor = int(path.name)
            blocks = os.get_blocking(descriptor)
            with socket(fileno=os.dup(descriptor)) as sock:
                os.set_blocking(descriptor, blocks)  # where a script has set a default timeout, the copy has changed it
                if sock.family in (AF_INET, AF_INET6) and sock.type == SOCK_STREAM:
                    yield sock
