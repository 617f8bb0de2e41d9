"""Arrival of a burst, and the rate at which it arrives.

The rate is taken at the receiver, over the window from :data:`SETTLE` of the duration after its first byte, or later on
a slow link, to the whole duration after it, which leaves out slow start and the bucket's initial burst. It is the
median over :data:`SLICES` of the window: what is asked is what the link carries, and one stall of a sender (a
retransmission timer takes 0.2 s) says nothing about that.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

import numpy as np

from testbed.base.errors import NeighbourError, WorkerError
from testbed.workloads.job import Probe

SETTLE = 0.3
GROWTH_BITS = 6_000_000
"""Bits after which TCP has come to a link's rate, whatever that is, where every NIC sends and receives at once:
acknowledgements wait behind the other direction's data. With 14 hosts at 7.9 Mbit/s, bursts of 1 s whose window began
after 0.3 s read 0.63 to 0.93 of the rate at some NIC in seven of eight trials."""
LEAST_BITS = 2 * GROWTH_BITS
"""Least bits of a burst over a slow link, which takes longer: half of it is left out. In ten slices of the rest are 50
packets each."""
SLICES = 10


class Arrivals:
    """The payload that arrives of one burst of ``duration_s`` over a link of ``rate_bps``."""

    def __init__(self, duration_s: float, rate_bps: float) -> None:
        self._duration_s = duration_s
        self._settled_s = max(SETTLE * duration_s, min(GROWTH_BITS / rate_bps, duration_s / 2))
        self.bytes = 0.0
        self._first_s = 0.0
        self._marks: list[tuple[float, float]] = []  # (time, bytes so far) at each arrival in the window

    def add(self, count: float, now: float) -> None:
        """Add ``count`` bytes, which have come at ``now`` (s)."""
        self.bytes += count
        self._first_s = self._first_s or now
        since = now - self._first_s
        if self._settled_s <= since <= self._duration_s:
            self._marks.append((now, self.bytes))

    @property
    def rate_bps(self) -> float:
        """Rate in the window; 0 where nothing came."""
        return median_rate_bps(self._marks)


def median_rate_bps(marks: Sequence[tuple[float, float]]) -> float:
    """Return the median rate over :data:`SLICES` equal slices of the time that ``marks``, (seconds, bytes so far),
    cover.

    Between two marks bytes arrive evenly. 0 for fewer than two marks.
    """
    if len(marks) < 2:
        return 0.0
    times, counts = zip(*marks, strict=True)
    edges = np.linspace(times[0], times[-1], SLICES + 1)
    arrived = np.diff(np.interp(edges, times, counts))
    return 8 * float(np.median(arrived)) / float(edges[1] - edges[0])


def bind(sock: socket.socket, local: str, port: int) -> None:
    """Give a socket its address; one that cannot have it is closed.

    Raises:
        WorkerError: the address cannot be used.
    """
    try:
        sock.bind((local, port))
    except OSError as error:
        sock.close()
        raise WorkerError(
            f"cannot listen at {local}:{port}: {error.strerror}", fix="see that the address is on this host and free"
        ) from error


def broke_off(probe: Probe, error: OSError) -> NeighbourError:
    """Make the error for a burst whose receiver is gone."""
    return NeighbourError(
        f"the burst to {probe.remote}:{probe.send_port} broke off: {error.strerror}",
        fix="see the log of the worker at that address",
    )
