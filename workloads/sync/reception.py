"""Reception of the neighbours that a node awaits, whichever strangers connect meanwhile.

A neighbour connects from the address that the node knows of it, and says its index first. Everybody else is a stranger.
A stranger neither ends the trial nor keeps a neighbour waiting: all connections are read together. A connection from
another address is closed at once, and one that says something else as soon as it does. One that says nothing may be a
neighbour whose first packet was lost, so it is kept for a while, but only a few of these. Where a neighbour does not
come in time, the error names the strangers, for one of them may be the reason.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from testbed.base.errors import TrialTimeoutError

HELLO_BYTES = 4
WAIT_LONGER = "wait longer (start_timeout of a spec)"
"""Advice to a trial's user in errors. A program over MLfabric names its own setting in place of this text."""
MOST_SILENT = 16
"""Limit on the connections that may be silent at once; one more, and the oldest of them is closed."""
SILENT_S = 30.0
"""How long (s) each connection may be silent: TCP sends a lost packet again after 1, 3, 7 and 15 s at the latest (RFC
6298)."""
_LOOK_S = 0.02
"""Time (s) between calls of ``called_off``."""
_TOLD = 3
"""Limit on the strangers that a message names."""
Look = Callable[[], None]
Awaited = tuple[int, str]
"""Index of a neighbour, and the address that it connects from: one for each of its NICs that it uses."""


@dataclass
class _Guest:
    """A connection that has not said yet which node it comes from."""

    address: str
    since_s: float
    said: bytes = b""

    @property
    def silence(self) -> str:
        """Words for an error about a connection that says no more."""
        return f"said no more than {self.said!r}" if self.said else "said nothing"


class Reception:
    """Reception at one listener."""

    def __init__(self, listener: socket.socket, awaited: Collection[Awaited], names: Sequence[str]) -> None:
        """Set up; ``awaited`` are the connections that are to come. ``names`` are all nodes'."""
        listener.setblocking(False)
        self._listener = listener
        self._awaited = set(awaited)
        self._names = names
        self._met: dict[Awaited, socket.socket] = {}
        self._guests: dict[socket.socket, _Guest] = {}  # the oldest first
        self._strangers: list[str] = []
        self._stranger_count = 0
        self._selector = selectors.DefaultSelector()

    def until(self, deadline: float, called_off: Look) -> dict[Awaited, socket.socket]:
        """Return the socket of each awaited connection, once all have come.

        Raises:
            TrialTimeoutError: one has not come by ``deadline``. And what ``called_off`` raises.
        """
        self._selector.register(self._listener, selectors.EVENT_READ)
        try:
            while self._awaited:
                for key, _ in self._selector.select(_LOOK_S):
                    self._move(key.fileobj)
                called_off()
                now = time.monotonic()
                self._dismiss_silent(now - SILENT_S)
                if self._awaited and now >= deadline:
                    self._dismiss_silent(now)
                    raise self._too_late()
        except BaseException:
            for sock in self._met.values():
                sock.close()
            raise
        finally:
            self._dismiss_silent(time.monotonic())
            self._selector.close()
        if self._strangers:
            print(f"all neighbours have come; {self._told()}", flush=True)
        return self._met

    def _too_late(self) -> TrialTimeoutError:
        missing = ", ".join(self._names[index] for index in sorted({index for index, _ in self._awaited}))
        fix = f"see whether the worker on {missing} started, or {WAIT_LONGER}"
        if self._strangers:
            return TrialTimeoutError(
                f"no connection came from {missing}; {self._told()}",
                fix=f"keep other programs off the ports of the trial; {fix}",
            )
        return TrialTimeoutError(f"no connection came from {missing}", fix=fix)

    def _told(self) -> str:
        """Say which strangers connected."""
        place = "{}:{}".format(*self._listener.getsockname())
        more = f" and {self._stranger_count} connections in all" if self._stranger_count > len(self._strangers) else ""
        return f"strangers connected to {place}: {', '.join(self._strangers)}{more}"

    def _move(self, ready: object) -> None:
        """Accept one connection, or read from one."""
        if ready is self._listener:
            try:
                sock, (address, _) = self._listener.accept()
            except OSError:  # gone again before it was accepted
                return
            self._receive(sock, address)
        elif isinstance(ready, socket.socket) and ready in self._guests:
            self._listen_to(ready)

    def _receive(self, sock: socket.socket, address: str) -> None:
        """Listen to a new connection, if it comes from a neighbour's address."""
        if all(address != awaited for _, awaited in self._awaited):
            sock.close()
            self._note(address, "no neighbour that is awaited")
            return
        if len(self._guests) >= MOST_SILENT:
            oldest = next(iter(self._guests))
            self._dismiss(oldest, self._guests[oldest].silence)
        sock.setblocking(False)
        self._guests[sock] = _Guest(address, time.monotonic())
        self._selector.register(sock, selectors.EVENT_READ)

    def _listen_to(self, sock: socket.socket) -> None:
        """Read more of a connection's first word; it turns out to be a neighbour or a stranger once the word is whole,
        or ends."""
        guest = self._guests[sock]
        try:
            more = sock.recv(HELLO_BYTES - len(guest.said))
        except BlockingIOError:
            return
        except ConnectionError:
            more = b""
        guest.said += more
        if not more:
            self._dismiss(sock, f"{guest.silence} and ended")
        if len(guest.said) < HELLO_BYTES or not more:
            return
        said = int.from_bytes(guest.said, "big"), guest.address
        if said not in self._awaited:
            self._dismiss(sock, f"said {guest.said!r}")
            return
        self._awaited.remove(said)
        del self._guests[sock]
        self._selector.unregister(sock)
        sock.setblocking(True)
        self._met[said] = sock

    def _dismiss_silent(self, before_s: float) -> None:
        """Close the silent connections that came before then."""
        for sock, guest in list(self._guests.items()):
            if guest.since_s <= before_s:
                self._dismiss(sock, guest.silence)

    def _dismiss(self, sock: socket.socket, why: str) -> None:
        guest = self._guests.pop(sock)
        self._selector.unregister(sock)
        sock.close()
        self._note(guest.address, why)

    def _note(self, address: str, did: str) -> None:
        """Remember a stranger; several that did the same count as one."""
        self._stranger_count += 1
        told = f"{address} ({did})"
        if told not in self._strangers and len(self._strangers) < _TOLD:
            self._strangers.append(told)
