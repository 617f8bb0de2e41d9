"""Access to a service: a namespace and a nonce for each job (PHub thesis, section 3.3).

The manager makes both when rank 0 creates the service. It tells the cores, and rank 0 tells the other ranks. Each
worker shows both once to each core, when it connects; from then on the connection stands for them. A nonce is in memory
and on these connections only: hosts can read each other's job files.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Self

from testbed.base.errors import NeighbourError, TrialTimeoutError, WorkerError

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
