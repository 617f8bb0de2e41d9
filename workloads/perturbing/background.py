"""TCP flows that compete with a trial's: a sink, and a source that sends from SIGUSR1 to SIGUSR2, again and again.

Usage::

    python -P -m testbed.workloads.perturbing.background sink ADDRESS PORT FLOWS
    python -P -m testbed.workloads.perturbing.background source ADDRESS PORT FLOWS RATE_BPS

Each flow's rate is RATE_BPS of payload, or what TCP reaches where that is 0. The source connects before it is told to
send. At each SIGUSR2, and when it is ended by SIGTERM, it prints a line with the bytes that it has sent so far and that
have arrived. Before it ends it waits for what is on its way, so that all links have carried the same.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import signal
import socket
import sys
import termios
import time
from array import array
from contextlib import suppress

BUFFER_BYTES = 64 * 2**10
RETRY_S = 0.02
SIGNALS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
PATIENCE_S = 60.0
"""Longest time (s) for which a source tries to connect: sinks may start moments later."""
DRAIN_S, LOOK_S = 3.0, 0.01
"""Longest time (s) for which a source waits at its end for what is on its way, and the time between two looks."""
SLICE_S = 0.01
"""Length (s) of the slices in which a paced flow sends what is due."""


def sink(address: str, port: int, flows: int) -> None:
    """Read what comes until every flow has ended."""
    with socket.create_server((address, port), backlog=flows) as listener, selectors.DefaultSelector() as selector:
        print("ready", flush=True)
        for _ in range(flows):
            selector.register(listener.accept()[0], selectors.EVENT_READ)
        room = bytearray(BUFFER_BYTES)
        while selector.get_map():
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                if not key.fileobj.recv_into(room):
                    selector.unregister(key.fileobj)


class Source:
    """Source of FLOWS connections, which counts the bytes that they have sent."""

    def __init__(self, address: str, port: int, flows: int, rate_bps: int) -> None:
        self._sockets = [_dial(address, port) for _ in range(flows)]
        self._rate_bps = rate_bps
        self._sending = False
        self._begun_s, self._paid_bytes = 0.0, 0
        self.sent_bytes = 0

    def run(self) -> None:
        """Send whenever told to, until SIGTERM."""
        wake, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)
        print("ready", flush=True)
        with selectors.DefaultSelector() as selector:
            selector.register(wake, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(SLICE_S if self._sending and self._rate_bps else None):
                    if isinstance(key.fileobj, socket.socket):
                        self._write(key.fileobj, BUFFER_BYTES)
                    elif not all(self._obey(number, selector) for number in os.read(wake, 64)):
                        return
                if self._sending and self._rate_bps:
                    self._pay()

    def _obey(self, number: int, selector: selectors.BaseSelector) -> bool:
        """Do as a signal says; return False at the one that ends the source."""
        starts = number == signal.SIGUSR1
        if starts != self._sending and not self._rate_bps:
            for sock in self._sockets:
                selector.register(sock, selectors.EVENT_WRITE) if starts else selector.unregister(sock)
        self._sending = starts
        self._begun_s, self._paid_bytes = time.monotonic(), 0
        if number == signal.SIGTERM:
            while self._unacknowledged_bytes() and time.monotonic() < self._begun_s + DRAIN_S:
                time.sleep(LOOK_S)
        if not starts:
            print(json.dumps({"sent_bytes": self.sent_bytes - self._unacknowledged_bytes()}), flush=True)
        return number != signal.SIGTERM

    def _unacknowledged_bytes(self) -> int:
        """Count the bytes that the kernel has taken and nobody has acknowledged: most of them wait in a queue and are
        on no wire yet."""
        held = array("i", [0])
        total = 0
        for sock in self._sockets:
            fcntl.ioctl(sock, termios.TIOCOUTQ, held)  # the same number as SIOCOUTQ (tcp(7))
            total += held[0]
        return total

    def _pay(self) -> None:
        """Send the bytes that are due since the last time."""
        due = round((time.monotonic() - self._begun_s) * self._rate_bps / 8) - self._paid_bytes
        self._paid_bytes += due
        for sock in self._sockets:
            self._write(sock, due)

    def _write(self, sock: socket.socket, count: int) -> None:
        """Send as much of ``count`` zeros as fits; the rest is dropped, as a full link would drop it."""
        with suppress(BlockingIOError, ConnectionError):  # at the end the sink may be ended a moment earlier
            self.sent_bytes += sock.send(bytes(count))


def _dial(address: str, port: int) -> socket.socket:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            sock = socket.create_connection((address, port), timeout=PATIENCE_S)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
            continue
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, BUFFER_BYTES)  # little is left to send at an end
        return sock


def main(arguments: list[str]) -> int:
    role, address, *numbers = arguments
    if role == "sink":
        sink(address, int(numbers[0]), int(numbers[1]))
    else:
        Source(address, *map(int, numbers)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
