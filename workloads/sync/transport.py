"""One TCP connection to each neighbour in the forest, or one over each of several parallel circuits or NICs.

Of two neighbours the one with the lower index connects and the other one listens. Every node first opens its listeners,
then connects to the higher ones (the kernel completes a connection before it is accepted), then accepts the lower ones
(:mod:`testbed.workloads.sync.reception`), so nobody waits in a circle. The one that connects says its index first, in 4
bytes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain

from testbed.base.errors import PrivilegeError, TrialTimeoutError, WorkerError
from testbed.workloads.job import Peer
from testbed.workloads.sync.reception import HELLO_BYTES, MOST_SILENT, WAIT_LONGER, Look, Reception

Place = tuple[str, int]
"""An address and a port."""
SIOCGIFADDR = 0x8915
"""Request for an interface's address (linux/sockios.h); the answer has it as a sockaddr_in after the name."""
_RETRY_S = 0.02
"""Pause before another attempt while a neighbour has not begun to listen, and between looks at ``called_off``."""


def connect(
    node: int,
    peers: Sequence[Peer],
    names: Sequence[str],
    congestion_control: str,
    timeout_s: float,
    called_off: Look = lambda: None,
) -> dict[int, socket.socket]:
    """Connect as :func:`connect_all`, where each neighbour is one of ``peers``; return a socket by neighbour."""
    found = connect_all(node, peers, names, congestion_control, timeout_s, called_off)
    return {peer: sock for peer, (sock,) in found.items()}


def connect_all(
    node: int,
    peers: Sequence[Peer],
    names: Sequence[str],
    congestion_control: str,
    timeout_s: float,
    called_off: Look = lambda: None,
) -> dict[int, list[socket.socket]]:
    """Connect ``node`` to all ``peers``; return by neighbour a socket for each of them, in their order. Blocks for at
    most ``timeout_s``.

    ``names`` are those of all nodes, by index, for errors.

    Each socket leaves from the peer's ``local`` address and uses ``congestion_control`` in both directions.
    ``called_off`` is called again and again meanwhile; it raises where waiting has become useless.

    Raises:
        TrialTimeoutError: a neighbour did not appear in time; names it, and the strangers that connected meanwhile.
        PrivilegeError: the kernel refuses the congestion control.
        WorkerError: an address cannot be used.
    """
    deadline = time.monotonic() + timeout_s
    lower = [peer for peer in peers if peer.node < node]
    higher = [peer for peer in peers if peer.node > node]
    sockets: dict[Peer, socket.socket] = {}
    with _listening(lower, congestion_control) as listeners:
        try:
            for peer in higher:
                sockets[peer] = _dial(node, peer, names, congestion_control, deadline, called_off)
            for place, listener in listeners.items():
                awaited = {(peer.node, peer.remote): peer for peer in lower if (peer.local, peer.port) == place}
                met = Reception(listener, awaited, names).until(deadline, called_off)
                sockets |= {awaited[guest]: sock for guest, sock in met.items()}
        except BaseException:
            for sock in sockets.values():
                sock.close()
            raise
    found: dict[int, list[socket.socket]] = {peer.node: [] for peer in peers}
    for peer in peers:
        found[peer.node].append(sockets[peer])
    return found


def limit_unsent(sockets: Mapping[int, Sequence[socket.socket]], unsent_bytes: int) -> None:
    """Let the kernel hold at most so many bytes of each connection that are not on the wire yet."""
    for sock in chain.from_iterable(sockets.values()):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)


def reach(
    node: int,
    peer: Peer,
    names: Sequence[str],
    congestion_control: str,
    timeout_s: float,
    meanwhile: Callable[[], None],
) -> socket.socket:
    """Connect ``node`` to one peer that awaits it (:func:`await_all`). ``meanwhile`` is called again and again.

    Raises:
        TrialTimeoutError, PrivilegeError, WorkerError: as :func:`connect`.
    """
    return _dial(node, peer, names, congestion_control, time.monotonic() + timeout_s, meanwhile)


def await_all(
    peers: Sequence[Peer], names: Sequence[str], congestion_control: str, timeout_s: float
) -> dict[int, socket.socket]:
    """Wait for all ``peers`` to connect: those of a process that is started again, so that nobody else listens.

    Raises:
        TrialTimeoutError, PrivilegeError, WorkerError: as :func:`connect`.
    """
    return connect(len(names), peers, names, congestion_control, timeout_s)  # to whom all others are lower


@contextmanager
def _listening(peers: Sequence[Peer], congestion_control: str) -> Iterator[dict[Place, socket.socket]]:
    """Open a listener for each (address, port) to which ``peers`` will connect, and close all at the end."""
    listeners: dict[Place, socket.socket] = {}
    for place, bound in sorted({(peer.local, peer.port): peer.bound for peer in peers}.items()):
        listener = tcp_socket(congestion_control)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _bind(listener, place, bound)
        listener.listen(len(peers) + MOST_SILENT)  # strangers that connect first leave room for neighbours
        listeners[place] = listener
    try:
        yield listeners
    finally:
        for listener in listeners.values():
            listener.close()


def dial(connect: Callable[[], socket.socket], deadline: float, called_off: Look = lambda: None) -> socket.socket:
    """Call ``connect`` again and again until it does not raise OSError, and return its result: the other end may not
    listen yet. ``called_off`` is called before each attempt.

    Raises:
        OSError: what it raised last, if that was at ``deadline`` (``time.monotonic``) or later.
    """
    while True:
        called_off()
        try:
            return connect()
        except OSError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_S)


def _dial(
    node: int, peer: Peer, names: Sequence[str], congestion_control: str, deadline: float, called_off: Look
) -> socket.socket:
    try:
        return dial(lambda: _connect(node, peer, congestion_control, deadline, called_off), deadline, called_off)
    except OSError as error:
        why = error.strerror or str(error)
        raise TrialTimeoutError(
            f"{names[node]} could not reach {names[peer.node]} at {peer.remote}:{peer.port}: {why}",
            fix=f"see whether the worker on {names[peer.node]} started, or {WAIT_LONGER}",
        ) from error


def _connect(node: int, peer: Peer, congestion_control: str, deadline: float, called_off: Look) -> socket.socket:
    """Try to connect once. Raises OSError."""
    sock = tcp_socket(congestion_control)
    try:
        _bind(sock, (peer.local, 0), peer.bound)
        _reach(sock, (peer.remote, peer.port), deadline, called_off)
        sock.sendall(node.to_bytes(HELLO_BYTES, "big"))
    except BaseException:
        sock.close()
        raise
    return sock


def _reach(sock: socket.socket, place: Place, deadline: float, called_off: Look) -> None:
    """Connect a socket. Raises OSError, and what ``called_off`` raises."""
    sock.setblocking(False)
    problem = sock.connect_ex(place)
    if problem == errno.EINPROGRESS:
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        while not poll.poll(1000 * _RETRY_S):
            called_off()
            if time.monotonic() >= deadline:
                raise TimeoutError("timed out")
        problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if problem:
        raise OSError(problem, os.strerror(problem))
    sock.settimeout(max(_RETRY_S, deadline - time.monotonic()))


def tcp_socket(congestion_control: str) -> socket.socket:
    """Make a TCP socket that sends at once; an accepted one inherits all of this from its listener."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
    except OSError as error:
        sock.close()
        raise PrivilegeError(
            f"the kernel does not let this process use congestion control {congestion_control!r}: {error.strerror}",
            fix="take one of net.ipv4.tcp_allowed_congestion_control, such as reno",
        ) from error
    return sock


def interface_of(address: str) -> str:
    """Return the name of the interface that has an IPv4 address (netdevice(7)). Raises OSError if none has it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has no address
                answer = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("16s24x", name.encode()))
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))


def _bind(sock: socket.socket, place: Place, to_nic: bool) -> None:
    """Bind a socket to an address of this host, and perhaps to the NIC that has it."""
    try:
        sock.bind(place)
        if to_nic:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface_of(place[0]).encode())
    except OSError as error:
        sock.close()
        raise WorkerError(
            f"cannot use {place[0]}:{place[1]}: {error.strerror}", fix="see that the address is on this host and free"
        ) from error
