"""Meeting of the processes of a program: all tell rank 0 who they are, and rank 0 tells each of them about all.

This needs no more than what torchrun tells a program (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT). An address is where
a connection came from; nobody says its own. Whoever says something else than a rank that is awaited is sent away, and
does not keep others waiting. A process that ends before all have come may be started again. What is said is a line of
JSON.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Self

from testbed.base.errors import SpecError, TrialTimeoutError, WorkerError
from testbed.workloads.kinds.fabric.fields import convert
from testbed.workloads.sync.transport import dial

MOST_BYTES = 4096
"""Limit on the bytes that a process may send about itself."""
_MOST_SILENT = 64
"""Connections besides those of the ranks that may be open at once."""
_RETRY_S = 0.02
_HIGHEST_PORT = 65535


@dataclass(frozen=True)
class Place:
    """The place of a process among those of its program.

    Attributes:
        rank: its number, from 0 on.
        world: how many processes there are.
        host: the address of rank 0.
        port: where rank 0 listens; the processes take the ``world`` ports after it, too.
    """

    rank: int
    world: int
    host: str
    port: int

    def __post_init__(self) -> None:
        convert(self)
        if not 0 <= self.rank < self.world:
            raise SpecError(
                f"a process has rank {self.rank} of {self.world}", fix=f"give it a rank from 0 to {self.world - 1}"
            )
        if not 0 < self.port <= _HIGHEST_PORT - self.world:
            raise SpecError(
                f"rank 0 is to listen at port {self.port}, and {self.world} ports after it are needed",
                fix=f"give a port from 1024 to {_HIGHEST_PORT - self.world}",
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Place:
        """Read the place from the environment that torchrun, or a workload of kind ``command``, sets.

        torchrun itself listens at MASTER_PORT, unless TORCHELASTIC_USE_AGENT_STORE says that it does not
        (torch.distributed.elastic); then rank 0 takes the port after it.

        Raises:
            SpecError: a variable is missing, or no number.
        """
        told = os.environ if environment is None else environment
        numbers = {}
        for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
            try:
                numbers[name] = int(told[name])
            except (KeyError, ValueError):
                found = f"is {told[name]!r}" if name in told else "is not set"
                raise SpecError(
                    f"the environment variable {name} {found}",
                    fix="start the program with kind: command or torchrun, or give a place: Place(rank=0, ...)",
                ) from None
        port = numbers["MASTER_PORT"] + (told.get("TORCHELASTIC_USE_AGENT_STORE") == "True")
        return cls(numbers["RANK"], numbers["WORLD_SIZE"], told.get("MASTER_ADDR", "127.0.0.1"), port)


@dataclass(frozen=True)
class Member:
    """A process: its IPv4 address, and the data that it sent about itself."""

    address: str
    said: Mapping[str, Any]


def meet(place: Place, said: Mapping[str, Any], timeout_s: float) -> list[Member]:
    """Send ``said`` to the other processes; return all processes by rank, once all have come.

    Raises:
        TrialTimeoutError: not all came in time.
        WorkerError: rank 0 cannot listen, or sends this process away.
    """
    deadline = time.monotonic() + timeout_s
    return _receive(place, said, deadline) if place.rank == 0 else _ask(place, said, deadline)


# Rank 0


def _receive(place: Place, said: Mapping[str, Any], deadline: float) -> list[Member]:
    with _listen(place) as listener, _Reception(listener, place.world) as reception:
        while missing := reception.missing:
            reception.move()
            if time.monotonic() >= deadline:
                reception.tell(json.dumps({"missing": missing}).encode(), deadline)
                raise _missed(place, missing)
        members = [Member(reception.own_address or place.host, said), *reception.members]
        reception.tell(json.dumps([[one.address, one.said] for one in members]).encode(), deadline)
    return members


def _missed(place: Place, missing: list[int]) -> TrialTimeoutError:
    return TrialTimeoutError(
        f"rank 0 waits at {place.host}:{place.port} for rank {', '.join(map(str, missing))}",
        fix="see whether they were started",
    )


def _listen(place: Place) -> socket.socket:
    listener = socket.socket(socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((place.host, place.port))
    except OSError as error:
        listener.close()
        raise WorkerError(
            f"rank 0 cannot listen at {place.host}:{place.port}: {error.strerror}",
            fix="give an address of its host, and a port that nobody uses",
        ) from error
    listener.listen(place.world + _MOST_SILENT)
    listener.setblocking(False)
    return listener


class _Reception:
    """Reception of the processes that connect to rank 0; all are read together."""

    def __init__(self, listener: socket.socket, world: int) -> None:
        self._listener, self._world = listener, world
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._reading: dict[socket.socket, bytes] = {}  # the oldest first
        self._found: dict[int, tuple[socket.socket, Member]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for sock in (*self._reading, *(sock for sock, _ in self._found.values())):
            sock.close()

    @property
    def missing(self) -> list[int]:
        return [rank for rank in range(1, self._world) if rank not in self._found]

    @property
    def members(self) -> list[Member]:
        return [member for _, (_, member) in sorted(self._found.items(), key=itemgetter(0))]

    @property
    def own_address(self) -> str:
        """The address at which the others have reached this process; empty if there are no others."""
        return next((str(sock.getsockname()[0]) for sock, _ in self._found.values()), "")

    def move(self) -> None:
        """Accept and read what is there."""
        for key, _ in self._selector.select(_RETRY_S):
            if key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._reading:
                self._read(key.fileobj)
            else:
                self._lose(key.fileobj)

    def tell(self, what: bytes, deadline: float) -> None:
        """Send ``what`` to all processes that have come. One that is gone by now is missed by its neighbours."""
        for sock, _ in self._found.values():
            sock.settimeout(max(_RETRY_S, deadline - time.monotonic()))
            with suppress(OSError):
                sock.sendall(what)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # gone again
            return
        if len(self._reading) >= self._world + _MOST_SILENT:
            self._send_away(next(iter(self._reading)))
        sock.setblocking(False)
        self._reading[sock] = b""
        self._selector.register(sock, selectors.EVENT_READ)

    def _read(self, sock: socket.socket) -> None:
        """Read more of what a process sends. Once that is complete, the process becomes a member or is sent away."""
        try:
            more = sock.recv(MOST_BYTES - len(self._reading[sock]))
        except OSError:
            more = b""
        self._reading[sock] += more
        told = self._reading[sock]
        if more and not told.endswith(b"\n") and len(told) < MOST_BYTES:
            return
        try:
            rank, said = json.loads(told)
            member = Member(sock.getpeername()[0], dict(said))
        except (ValueError, TypeError, RecursionError, OSError):
            rank = None
        if rank in self.missing:
            del self._reading[sock]
            self._found[rank] = sock, member
        else:
            self._send_away(sock)

    def _send_away(self, sock: socket.socket) -> None:
        del self._reading[sock]
        self._close(sock)

    def _lose(self, sock: object) -> None:
        """Forget a member that ended, or sends more than it may: another process may take its rank."""
        for rank in [rank for rank, (one, _) in self._found.items() if one is sock]:
            self._close(self._found.pop(rank)[0])

    def _close(self, sock: socket.socket) -> None:
        self._selector.unregister(sock)
        sock.close()


# The others


def _ask(place: Place, said: Mapping[str, Any], deadline: float) -> list[Member]:
    where = f"{place.host}:{place.port}"
    with _dial(place, deadline) as sock:
        try:
            sock.sendall(json.dumps([place.rank, said]).encode() + b"\n")
            told = _line(sock, place.world * (MOST_BYTES + 64), deadline)
        except TimeoutError as error:
            raise TrialTimeoutError(
                f"rank {place.rank} waits for rank 0 at {where} to say who the others are",
                fix="see whether all ranks were started",
            ) from error
        except OSError as error:
            raise _sent_away(place) from error
    try:
        answer = json.loads(told)
        missing = [int(rank) for rank in answer["missing"]] if isinstance(answer, dict) else []
        members = [] if missing else [Member(address, dict(what)) for address, what in answer]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise _sent_away(place) from error
    if missing:
        raise _missed(place, missing)
    if len(members) != place.world:
        raise _sent_away(place)
    return members


def _dial(place: Place, deadline: float) -> socket.socket:
    def connect() -> socket.socket:
        return socket.create_connection((place.host, place.port), max(_RETRY_S, deadline - time.monotonic()))

    try:
        return dial(connect, deadline)
    except OSError as error:
        raise TrialTimeoutError(
            f"rank {place.rank} could not reach rank 0 at {place.host}:{place.port}: {error}",
            fix="see whether rank 0 was started",
        ) from error


def _line(sock: socket.socket, most: int, deadline: float) -> bytes:
    """Read until the other side ends. Raises OSError, and TimeoutError, which is one."""
    got = b""
    while len(got) < most:
        sock.settimeout(max(_RETRY_S, deadline - time.monotonic()))
        more = sock.recv(most - len(got))
        if not more:
            break
        got += more
        if time.monotonic() >= deadline:
            raise TimeoutError
    return got


def _sent_away(place: Place) -> WorkerError:
    return WorkerError(
        f"rank 0 at {place.host}:{place.port} does not take this process as rank {place.rank} of {place.world}, or has "
        "ended",
        fix="see what rank 0 wrote; give each process another rank below WORLD_SIZE, and keep other programs off that "
        "port",
    )
