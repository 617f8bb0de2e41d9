"""Settings that every library needs: the interface, the congestion control, and the spans of the gradient."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from testbed.base.errors import WorkerError
from testbed.workloads.sync import transport
from testbed.workloads.sync.chunks import ChunkTable
from testbed.workloads.sync.session import Session

_CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def interface_of(address: str) -> str:
    """Return the name of the interface that has an IPv4 address.

    Raises:
        WorkerError: none has it.
    """
    try:
        return transport.interface_of(address)
    except OSError as error:
        raise WorkerError(
            f"no interface here has the address {address}", fix="let the harness write the job again"
        ) from error


class LibrarySession(Session):
    """The common part of libraries' sessions: values that a library takes from its network namespace, and others that
    it does not tell."""

    @property
    def congestion_control(self) -> str:
        """Default of this network namespace, which sockets of a library take."""
        return _CONGESTION_CONTROL.read_text().strip()

    @property
    def wire_bytes(self) -> None:
        """None: a library does not tell."""

    @property
    def sent(self) -> None:
        """None: a library does not tell."""


def bucket_spans(table: ChunkTable, gradient: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Return the part of the gradient that each bucket is."""
    return [
        gradient[int(table.start[table.bucket == b].min()) : int(table.stop[table.bucket == b].max())]
        for b in range(table.buckets)
    ]
