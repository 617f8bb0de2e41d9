"""Connections between ranks that are no neighbours in the scheme's trees, made when a call first needs one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from testbed.base.errors import TestbedError, TrialTimeoutError
from testbed.workloads.rank_job import RankJob
from testbed.workloads.sync import transport
from testbed.workloads.sync.forest import Forest
from testbed.workloads.sync.reception import HELLO_BYTES

PORT = 20_000
"""Port at which rank 0 listens; others listen at this plus their rank: below Linux's ephemeral range (32768)."""
_HELLO_S = 1.0
"""Time (s) after which a connection that does not say whose it is is closed."""


class Remote:
    """One rank's listener, and its attempts to reach others."""

    def __init__(self, job: RankJob, plan: Forest) -> None:
        self._job = job
        self._rank_of = {node: rank for rank, node in enumerate(plan.workers)}
        self._names = plan.nodes
        self._listener = transport.tcp_socket(job.congestion_control)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # A host may have several NICs, and others reach it at any of them; ranks of one machine are at loopback alone.
        address = job.addresses[job.rank]
        self._listener.bind((address if address.startswith("127.") else "", PORT + job.rank))
        self._listener.listen(len(plan.workers))

    def listen(self, came: Callable[[int, socket.socket], None]) -> None:
        """Take connections from now on; ``came`` is called with each, on another thread."""
        threading.Thread(target=self._accept, args=(came,), name="testbed-listener", daemon=True).start()

    def close(self, *, shut: bool = True) -> None:
        """Take no more; without ``shut``, another process that has the listener still does."""
        with suppress(OSError):
            if shut:
                self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def dial(self, node: int, came: Callable[[socket.socket], None], failed: Callable[[BaseException], None]) -> None:
        """Connect with a rank's node, on a thread of its own."""

        def connect() -> None:
            try:
                came(self._connect(node))
            except TestbedError as error:
                failed(error)

        threading.Thread(target=connect, name="testbed-dial", daemon=True).start()

    def _connect(self, node: int) -> socket.socket:
        """
        Raises:
            TrialTimeoutError: it cannot be reached in time.
        """
        rank = self._rank_of[node]
        place = (self._job.addresses[rank], PORT + rank)

        def attempt() -> socket.socket:
            sock = transport.tcp_socket(self._job.congestion_control)
            try:
                sock.settimeout(self._job.start_timeout_s)
                sock.connect(place)
                sock.sendall(self._job.node.to_bytes(HELLO_BYTES, "big"))
            except BaseException:
                sock.close()
                raise
            return sock

        try:
            return transport.dial(attempt, time.monotonic() + self._job.start_timeout_s)
        except OSError as error:
            raise TrialTimeoutError(
                f"{self._job.name} could not reach {self._names[node]} at {place[0]}:{place[1]}: {error}",
                fix=f"see whether the rank on {self._names[node]} is still there",
            ) from error

    def _accept(self, came: Callable[[int, socket.socket], None]) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:  # closed
                return
            node = self._hello(sock)
            if node in self._rank_of and node < self._job.node:
                came(node, sock)
            else:
                sock.close()

    def _hello(self, sock: socket.socket) -> int:
        """Read which node the other end says that it is; -1 if it says nothing in time."""
        sock.settimeout(_HELLO_S)
        said = b""
        with suppress(OSError):
            while len(said) < HELLO_BYTES and (more := sock.recv(HELLO_BYTES - len(said))):
                said += more
        return int.from_bytes(said, "big") if len(said) == HELLO_BYTES else -1
