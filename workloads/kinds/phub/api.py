"""The interface of a service for workers (PHub thesis, section 3.3).

Rank 0 creates the service and hands its handle to the other ranks. Each connects with the cores by that handle, and
says with which arrays it takes part. Then it pushes keys and pulls their values::

    handle = create_service(manager)
    connect_service(handle, cores)
    service = init_service("h0", cores, plan, gradient, weights)
    push_pull(service, range(len(plan.keys)))

Each of ``push``, ``pull`` and ``push_pull`` waits for its answer, unless ``block=False``; then ``wait`` does. The fused
one needs no word that a push has come, so it saves a round trip.

A handle is a namespace and a nonce for each job. The manager makes both when rank 0 creates the service. It tells the
cores, and rank 0 tells the other ranks. Each worker shows both once to each core, when it connects; from then on the
connection stands for them. A nonce is in memory and on these connections only: hosts can read each other's job files.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from testbed.base.errors import NeighbourError, TrialTimeoutError, WorkerError
from testbed.workloads.kinds.phub.client import Client
from testbed.workloads.kinds.phub.exchange import PULL, PUSH, PUSH_PULL, End
from testbed.workloads.kinds.phub.plan import Plan
from testbed.workloads.serving.exchange import Floats

NONCE_BYTES = 16
_HANDLE = struct.Struct(f"!I{NONCE_BYTES}s")


@dataclass(frozen=True)
class Handle:
    """The right to use a service: the number of a job's namespace, and its nonce."""

    namespace: int
    nonce: bytes = field(repr=False)

    @classmethod
    def new(cls, namespace: int) -> Self:
        """Make a handle with a nonce that nobody can guess."""
        return cls(namespace, secrets.token_bytes(NONCE_BYTES))

    def show(self, sock: socket.socket) -> None:
        """Send the handle to the process at the other end. Raises OSError."""
        sock.sendall(_HANDLE.pack(self.namespace, self.nonce))

    @classmethod
    def read(cls, sock: socket.socket, name: str, deadline: float) -> Self:
        """Read the handle that the process ``name`` sends before ``deadline`` (``time.monotonic``).

        Raises:
            TrialTimeoutError, NeighbourError: it does not.
        """
        got = b""
        while len(got) < _HANDLE.size:
            try:
                sock.settimeout(max(0.001, deadline - time.monotonic()))
                more = sock.recv(_HANDLE.size - len(got))
            except TimeoutError as error:
                raise TrialTimeoutError(
                    f"{name} did not say which service it means", fix=f"see why the process {name} stands still"
                ) from error
            except OSError:
                more = b""
            if not more:
                raise NeighbourError(
                    f"lost the connection to {name} before it said which service it means", fix=f"see why {name} ended"
                )
            got += more
        return cls(*_HANDLE.unpack(got))

    def check(self, shown: Handle, name: str) -> None:
        """
        Raises:
            WorkerError: the process ``name`` has shown another namespace or nonce.
        """
        alike = hmac.compare_digest(self.nonce, shown.nonce)
        if shown.namespace != self.namespace or not alike:
            wrong = "nonce" if shown.namespace == self.namespace else f"namespace {shown.namespace}"
            raise WorkerError(
                f"{name} came with a wrong {wrong}",
                fix="let each rank take the handle of rank 0",
            )


TIMEOUT_S = 60.0
"""Longest time (s) for which nothing may move."""


def create_service(manager: End, timeout_s: float = TIMEOUT_S) -> Handle:
    """Get a namespace and a nonce from the manager, for the job of this worker and others.

    Raises:
        TrialTimeoutError, NeighbourError: the manager is silent or gone.
    """
    return Handle.read(manager.sock, manager.name, time.monotonic() + timeout_s)


def hand_on(handle: Handle, others: Sequence[End]) -> None:
    """Give the handle to the other ranks, or to cores.

    Raises:
        NeighbourError: one of them is gone.
    """
    for end in others:
        try:
            handle.show(end.sock)
        except OSError as error:
            raise NeighbourError(f"lost the connection to {end.name}", fix=f"see why {end.name} ended") from error


def take_handle(first: End, timeout_s: float = TIMEOUT_S) -> Handle:
    """Take the handle from rank 0, which has created the service.

    Raises:
        TrialTimeoutError, NeighbourError: rank 0 is silent or gone.
    """
    return Handle.read(first.sock, first.name, time.monotonic() + timeout_s)


def connect_service(handle: Handle, cores: Sequence[End]) -> None:
    """Show the handle to each core, once. From then on the connection stands for it.

    Raises:
        NeighbourError: a core is gone.
    """
    hand_on(handle, cores)


def init_service(name: str, cores: Sequence[End], plan: Plan, gradient: Floats, weights: Floats) -> Client:
    """Take part as ``name`` with these arrays, float32[floats] each: keys of ``gradient`` are pushed, and their values
    come to the same places of ``weights``, which may be the same array. ``cores`` are in the plan's order."""
    return Client(name, cores, plan, gradient, weights)


def push(service: Client, keys: Sequence[int], *, block: bool = True, timeout_s: float = TIMEOUT_S) -> None:
    """Send keys of the gradient to their cores. With ``block``, return when these have them.

    Raises:
        TrialTimeoutError, WorkerError: a core is silent or gone.
    """
    _ask(service, PUSH, keys, block, timeout_s)


def pull(service: Client, keys: Sequence[int], *, block: bool = True, timeout_s: float = TIMEOUT_S) -> None:
    """Get the values of keys, which contain what all workers have pushed of them. With ``block``, return when they are
    there; otherwise as :func:`push`."""
    _ask(service, PULL, keys, block, timeout_s)


def push_pull(service: Client, keys: Sequence[int], *, block: bool = True, timeout_s: float = TIMEOUT_S) -> None:
    """Push keys, and get their values as soon as all workers have pushed them; otherwise as :func:`pull`."""
    _ask(service, PUSH_PULL, keys, block, timeout_s)


def wait(service: Client, timeout_s: float = TIMEOUT_S) -> float:
    """Wait for all answers; return the moment of the last one (``time.monotonic``).

    Raises:
        TrialTimeoutError, WorkerError: a core is silent or gone.
    """
    return service.answered(timeout_s)


def _ask(service: Client, kind: int, keys: Sequence[int], block: bool, timeout_s: float) -> None:
    service.ask(kind, keys)
    if block:
        service.answered(timeout_s)
