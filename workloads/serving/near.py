"""Processes on one host: sockets that the kernel keeps for this host alone, and memory without a name."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import struct
import time

from testbed.base.errors import TrialTimeoutError, WorkerError
from testbed.workloads.sync.transport import dial

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group (``struct ucred``)."""


def address(words: str) -> bytes:
    """Return the address that stands for these words: an abstract one (unix(7)), which no file has."""
    return b"\0testbed." + hashlib.sha256(words.encode()).hexdigest()[:32].encode()


def listen(place: bytes, name: str, other: str) -> socket.socket:
    """Listen at an address: the process ``name`` awaits another one there.

    Raises:
        WorkerError: the address is taken.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(place)
    except OSError as error:
        listener.close()
        raise WorkerError(
            f"{name} cannot await {other}: {error.strerror}", fix="end other runs of this trial"
        ) from error
    listener.listen()
    return listener


def accept(listener: socket.socket, name: str, other: str, deadline: float) -> socket.socket:
    """Accept a process of the same user; it should be ``other``.

    Raises:
        TrialTimeoutError: none came until ``deadline`` (``time.monotonic``).
    """
    while True:
        listener.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            sock, _ = listener.accept()
        except TimeoutError as error:
            raise _absent(name, other) from error
        said = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(said)[1] == os.getuid():
            return sock
        sock.close()


def reach(place: bytes, name: str, other: str, deadline: float) -> socket.socket:
    """Connect with the process ``other``, which listens at an address, or soon will.

    Raises:
        TrialTimeoutError: it did not until ``deadline`` (``time.monotonic``).
    """
    try:
        return dial(lambda: _connect(place), deadline)
    except OSError as error:
        raise _absent(name, other) from error


def _absent(name: str, other: str) -> TrialTimeoutError:
    return TrialTimeoutError(f"{other} did not come to {name}", fix=f"see why {other} ended")


def _connect(place: bytes) -> socket.socket:
    """Connect once. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(place)
    except OSError:
        sock.close()
        raise
    return sock


def memory(name: str, size: int) -> int:
    """Make memory of so many bytes, and return its descriptor. Nobody can change its size. The kernel frees it with the
    last process that has it."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor
