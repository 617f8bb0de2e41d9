"""Processes on one host: sockets that the kernel keeps for this host alone, and memory without a name."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group (``struct ucred``)."""


def address(words: str) -> bytes:
    """Return the address that stands for these words: an abstract one (unix(7)), which no file has."""
    return b"\0testbed." + hashlib.sha256(words.encode()).hexdigest()[:32].encode()


def connect(place: bytes) -> socket.socket:
    """Connect with the process that listens at an address, once. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(place)
    except OSError:
        sock.close()
        raise
    return sock


def has_same_user(sock: socket.socket) -> bool:
    """Whether the process at the other end has this process's user."""
    said = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(said)[1] == os.getuid())


def memory(name: str, size: int) -> int:
    """Make memory of so many bytes, and return its descriptor. Nobody can change its size. The kernel frees it with the
    last process that has it."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor
