"""Readings of the bytes that links carry, and of those that TCP connections with certain ports have sent and received.

Problem: this is read ten times a second on the cores that a trial needs, and to list a namespace's connections takes
0.25 ms, for the kernel looks through the table of all namespaces. Chosen: sockets stay open in each namespace, as those
of :mod:`.queues` do. Connections are listed once a second, and when the namespace has another number of sockets than at
the last listing (``inuse`` of /proc/net/sockstat), so that a new connection is known at once. In between, each one that
is known is asked for by itself (sock_diag(7)), which takes a few microseconds.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from testbed.base.errors import MissingToolError
from testbed.lab.measurements import Passed, Stream, Traffic
from testbed.lab.netns.kernel_interface import shaping
from testbed.lab.netns.kernel_interface.netlink import NetlinkError, Request, RouteSocket, attributes
from testbed.lab.netns.network.blueprint import NodePlan, Port
from testbed.lab.netns.network.build import SPARE_FILES, BuiltNetwork, allow_files
from testbed.workloads.sync.tcp_info import read

LIST_S = 1.0
"""Seconds between two listings of connections where none seems to be new."""
COUNT = Path("/proc/thread-self/net/sockstat")
"""File in which the kernel counts the sockets of the namespace of a thread; one that connects counts already."""
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
INET_DIAG_INFO = 2
SPEAKING = sum(1 << state for state in (1, 2, 4, 5, 8))
"""Bits of the states of a connection (include/net/tcp_states.h): established, about to be, and those in which one end
has no more to say."""
_ASKED = struct.Struct("=BBBxI48s")
"""Layout of ``struct inet_diag_req_v2``: family, protocol, wanted attributes, states, and which connection (zeros for
all)."""
_WHICH = slice(4, 52)
"""Bytes of ``struct inet_diag_msg`` that say which connection it is."""
_ENDS = struct.Struct(">4xHH4s12x4s")
"""Layout of the start of ``struct inet_diag_msg`` for IPv4: ports and addresses of both ends."""
_TOLD_BYTES = 72
"""Bytes of that struct; attributes follow."""


def listing(which: bytes = b"") -> Request:
    """Ask for one connection, or, to be dumped, for all of this namespace."""
    asked = _ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), SPEAKING, which)
    return Request(SOCK_DIAG_BY_FAMILY, 0, asked, "tell of connections")


class Streams:
    """Connections of the network namespace in which this is made, that have one of these ports at one of their ends."""

    def __init__(self, ports: range) -> None:
        self._ports = ports
        self._netlink = RouteSocket(NETLINK_SOCK_DIAG)
        self._counts, self._count = COUNT.open("rb", buffering=0), b""
        self._asked: list[Request] = []
        self._list_s = 0.0

    def close(self) -> None:
        self._netlink.close()
        self._counts.close()

    def read(self) -> list[Stream]:
        """Read the connections as they are now. Raises MissingToolError: the kernel tells nothing of connections."""
        try:
            before, self._count = self._count, self._in_use()
            bodies = self._again() if time.monotonic() < self._list_s and self._count == before else None
            if bodies is None:
                bodies = self._listed()
        except (NetlinkError, OSError) as error:
            raise MissingToolError(
                f"the kernel does not tell what TCP connections carry: {error}",
                fix="load the module tcp_diag, or take a kernel with CONFIG_INET_DIAG",
            ) from error
        return [stream for body in bodies for stream in _streams(body)]

    def _in_use(self) -> bytes:
        """The number of TCP sockets, but those that only wait for late packets."""
        self._counts.seek(0)
        return self._counts.read().partition(b"TCP: inuse ")[2].split(maxsplit=1)[0]

    def _again(self) -> list[bytes] | None:
        """Ask again for those connections that are known; None if one of them has ended."""
        try:
            return self._netlink.ask(self._asked)
        except NetlinkError as error:
            if error.errno != errno.ENOENT:
                raise
            self._netlink.drain()
            return None

    def _listed(self) -> list[bytes]:
        bodies = [
            body
            for body in self._netlink.dump(listing())
            if any(port in self._ports for port in _ENDS.unpack_from(body)[:2])
        ]
        self._list_s = time.monotonic() + LIST_S
        self._asked = [listing(body[_WHICH]) for body in bodies]
        return bodies


def _streams(body: bytes) -> Iterator[Stream]:
    """Yield the connection that an answer tells of; nothing if it is about to end."""
    info = attributes(body, _TOLD_BYTES).get(INET_DIAG_INFO)
    if info is not None:
        (here, there, local, remote), (sent, received_bytes) = _ENDS.unpack_from(body), read(info)
        ends = socket.inet_ntoa(local), socket.inet_ntoa(remote)
        yield Stream(*ends, (here, there), sent.wire_bytes, received_bytes)


@dataclass(frozen=True, slots=True)
class _Node:
    netlink: RouteSocket
    ports: Sequence[Port]
    streams: Streams


class Meter:
    """Meter of the bytes that links of a shaped network carry, and of connections with these ports.

    Attributes:
        ports: of the connections.
    """

    def __init__(self, network: BuiltNetwork, ports: range) -> None:
        self.ports = ports
        self._open, self._nodes = ExitStack(), list[_Node]()
        allow_files(5 * len(network.blueprint.own_nodes) + SPARE_FILES)
        network.on_every_node(lambda node, _: self._add(node))

    def _add(self, node: NodePlan) -> None:
        one = _Node(RouteSocket(), node.ports, Streams(self.ports))
        self._nodes.append(one)
        self._open.callback(one.netlink.close)
        self._open.callback(one.streams.close)

    def close(self) -> None:
        """Close the meter's sockets."""
        self._open.close()

    def read(self) -> Traffic:
        """Read links and connections as they are now. Raises MissingToolError: the kernel tells nothing of
        connections."""
        begun_s = time.monotonic()
        streams = [stream for node in self._nodes for stream in node.streams.read()]
        passed = [one for node in self._nodes for one in _passed(node)]
        took_s = time.monotonic() - begun_s
        return Traffic(tuple(passed), tuple(streams), begun_s + took_s / 2, took_s)


def _passed(node: _Node) -> Iterator[Passed]:
    roots = node.netlink.ask([shaping.ask_root(port.index) for port in node.ports])
    for port, root in zip(node.ports, map(shaping.read_qdisc, roots), strict=True):
        yield Passed(port.directed_link, root.bytes, root.waiting_bytes)
