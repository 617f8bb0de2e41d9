"""Connections of processes on machines to a Unix socket here: one here for each of theirs there.

Agents tell what processes say (:mod:`testbed.lab.machines.on_machine.relay`), and pass on what they are told. A message
takes a little longer than between processes of one machine, and keeps its place in the order of what its agent tells: a
process's last words come before its end.
"""

from __future__ import annotations

import base64
import os
import select
import socket
import threading
from contextlib import suppress
from pathlib import Path

from testbed.base.errors import LabError
from testbed.lab.baremetal.controller.answers import Relayed
from testbed.lab.baremetal.controller.fleet import Fleet
from testbed.lab.base import MOST_RELAYED_BYTES
from testbed.lab.machines.on_machine.requests import MachineRequests
from testbed.workloads.sync.gate import beside


class Relay:
    """Connections to the socket at ``path``, until :meth:`close`."""

    def __init__(self, fleet: Fleet, path: Path) -> None:
        self._fleet, self._path = fleet, path
        self._sockets: dict[tuple[int, int], socket.socket] = {}
        """Connections, by machine and by their numbers there."""
        self._ends: dict[int, tuple[int, int]] = {}
        """The same numbers, by descriptor."""
        self._lock, self._closed = threading.Lock(), False
        self._poll = select.epoll()
        self._stop = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll.register(self._stop, select.EPOLLIN)
        self._thread = threading.Thread(target=self._work, name="relay", daemon=True)
        self._thread.start()
        fleet.relayed = self._hear

    def close(self) -> None:
        """End all connections."""
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        with self._lock:
            self._closed = True
            for sock in self._sockets.values():
                sock.close()
            self._sockets.clear()
        self._poll.close()
        os.close(self._stop)

    def _hear(self, machine: int, event: Relayed) -> None:
        """Pass on what a process has said; called by the thread of its machine's connection."""
        end = machine, event.socket
        with self._lock, suppress(OSError):  # nobody hears it any more
            sock = self._sockets.get(end) or self._connected(end)
            if sock is not None:
                if event.message:
                    sock.send(event.message, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
                else:
                    sock.shutdown(socket.SHUT_RDWR)

    def _connected(self, end: tuple[int, int]) -> socket.socket | None:
        """Connect for a process that is new; None if all connections have been ended. Raises OSError: nobody listens
        any more."""
        if self._closed:
            return None
        sock = beside(self._path, connect=True)
        self._sockets[end], self._ends[sock.fileno()] = sock, end
        self._poll.register(sock, select.EPOLLIN)
        return sock

    def _work(self) -> None:
        """Pass on what processes are told."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._stop:
                    return
                self._pass_on(descriptor)

    def _pass_on(self, descriptor: int) -> None:
        with self._lock:
            machine, number = end = self._ends[descriptor]
            sock = self._sockets[end]
            try:
                message = sock.recv(MOST_RELAYED_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                self._poll.unregister(sock)
                del self._sockets[end], self._ends[descriptor]
                sock.close()
        with suppress(LabError):  # the machine is lost, which is told elsewhere
            self._fleet.connections[machine].begin(MachineRequests.say(number, base64.b64encode(message).decode()))
