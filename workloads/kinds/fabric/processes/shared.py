"""Resources that a worker shares with its daemon: memory for one update and for weights, and a connection for notes.

The memory has no name (memfd_create(2)), and the socket's address is abstract (unix(7)): the kernel frees both when the
two processes have ended, however they did. An abstract address belongs to a network namespace; on a machine where
others may use it, too, only a process of the same user is accepted.
"""

from __future__ import annotations

import mmap
import os
import socket
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import SpecError, WorkerError
from testbed.workloads.serving import near

Floats = NDArray[np.float32]
_FLOAT_BYTES = 4
_HELLO = b"fabric"
_WORKER, _DAEMON = "the worker", "its daemon"


class Memory:
    """Room for an update and for weights, of as many floats each.

    Attributes:
        update: what the worker writes, and the daemon sends.
        weights: what the daemon writes, and the worker reads.
    """

    def __init__(self, descriptor: int, floats: int) -> None:
        """Take over the descriptor.

        Raises:
            WorkerError: it holds something else.
        """
        self._descriptor = descriptor
        size = 2 * floats * _FLOAT_BYTES
        if os.fstat(descriptor).st_size != size:
            raise WorkerError(f"shared memory does not have {size:,} bytes", fix="report it: the protocol is broken")
        self._map = mmap.mmap(descriptor, size)
        whole: Floats = np.frombuffer(self._map, np.float32)
        self.update, self.weights = whole[:floats], whole[floats:]

    @classmethod
    def make(cls, floats: int) -> Memory:
        """Make new memory, filled with zeros, whose size nobody can change.

        Raises:
            SpecError: the machine has less.
        """
        needed, there = 2 * floats * _FLOAT_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > there:
            raise SpecError(
                f"weights and an update of {floats:,} floats take {needed:,} bytes, and this machine has {there:,}",
                fix="give fewer floats, or another machine",
            )
        return cls(near.memory("fabric", needed), floats)

    @property
    def descriptor(self) -> int:
        return self._descriptor

    def close(self) -> None:
        """Forget the descriptor; the memory goes when nothing views it any more."""
        os.close(self._descriptor)


def place(forest: str, node: int) -> bytes:
    """Return the address at which a node's daemon awaits its worker, of the trial whose plan lies at ``forest``."""
    return near.address(f"{forest} {node}")


def await_worker(address: bytes, floats: int, timeout_s: float) -> tuple[socket.socket, Memory]:
    """Open the daemon's end.

    Raises:
        TrialTimeoutError: the worker did not come.
        WorkerError: the address is taken, or the worker gave other memory.
    """
    deadline = time.monotonic() + timeout_s
    with near.listen(address, _DAEMON, _WORKER) as listener:
        while True:
            sock = near.accept(listener, _DAEMON, _WORKER, deadline)
            if descriptor := _introduced(sock, max(0.001, deadline - time.monotonic())):
                return sock, Memory(descriptor[0], floats)
            sock.close()


def _introduced(sock: socket.socket, timeout_s: float) -> Sequence[int]:
    """Read the descriptor that a worker sends first; empty if something else comes."""
    sock.settimeout(timeout_s)
    try:
        hello, descriptors, _, _ = socket.recv_fds(sock, len(_HELLO), 1)
    except OSError:  # it is silent, or has ended
        return []
    if hello == _HELLO:
        return descriptors
    for one in descriptors:
        os.close(one)
    return []


def reach_daemon(address: bytes, memory: Memory, timeout_s: float) -> socket.socket:
    """Open the worker's end.

    Raises:
        TrialTimeoutError: the daemon did not come.
    """
    sock = near.reach(address, _WORKER, _DAEMON, time.monotonic() + timeout_s)
    socket.send_fds(sock, [_HELLO], [memory.descriptor])
    return sock
