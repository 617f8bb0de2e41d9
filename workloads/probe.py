"""What the links really carry: before training, every NIC sends at full speed and receives at full speed at once.

Each NIC sends for ``duration_s`` and then ends its stream; the receiver reads to the end, so that nothing is left in
any queue when training starts. The rate is taken at the receiver, over the window from :data:`SETTLE` of the duration
after its first byte to the whole duration after it, which leaves out slow start and the bucket's initial burst. It is
the median over :data:`SLICES` of the window: what is asked is what the link carries, and one stall of a sender (a
retransmission timer takes 0.2 s) says nothing about that.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from testbed.errors import NeighbourError, WorkerError
from workloads.job import Probe
from workloads.sync.tcp_info import Sent, sent

SETTLE = 0.3
CONGESTION_CONTROL = b"reno"
"""Whatever the trial uses: in every kernel, and in slow start until a packet is lost. Cubic leaves slow start when
delay rises (HyStart); then one burst in thirty was still growing towards the link's rate a second later."""
UNDETERRED = b"bbr"
"""Where links are to lose packets: reno gives up half its window for each, and with 1 % at 20 ms uses a tenth of the
link; bbr uses 0.99 of what is not lost. Where it cannot be had, reno's rate makes the trial INVALID."""
SO_MAX_PACING_RATE = 47
"""In bytes per second (asm-generic/socket.h); Python does not name it."""
SLICES = 10
GRACE_S, GRACE = 3.0, 0.1
"""How long after the burst's duration a late neighbour or a draining queue is waited for: so long, and this share of
the duration, which is long where links are slow."""
_UNSENT_BYTES, _UNSENT_S = (1 << 13, 1 << 17), 0.05
"""Unsent bytes that the kernel holds, least and most, and their time between these: little, so that the stream's end
follows the duration closely and a slow link is empty again when training begins; enough for whole packets."""
_ZEROS = memoryview(bytes(_UNSENT_BYTES[1]))


@dataclass(frozen=True)
class Measured:
    """Payload that arrived at one NIC: rate in the window, and all bytes of the burst. 0 bit/s if nothing came. And
    what the kernel put on the wire for the burst that left by this NIC, and to acknowledge the one that came."""

    port_address: str
    rate_bps: float
    asked_bps: int
    bytes: int
    sent: Sent
    acknowledged: Sent


class Bursts:
    """All bursts of one host. Construct (which opens the listeners), let every host do so, then :meth:`run`."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        """
        Raises:
            WorkerError: an address cannot be used.
        """
        self._selector = selectors.DefaultSelector()
        self._probes = probes
        self._receivers = [Receiver(probe, self._selector) for probe in probes]

    def __enter__(self) -> Bursts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for key in list(self._selector.get_map().values()):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            sock.close()
        self._selector.close()

    def run(self) -> list[Measured]:
        """Send and receive; takes ``duration_s`` and the time to drain, at most ``GRACE_S`` and ``GRACE`` of it more.

        Raises:
            NeighbourError: a neighbour cannot be reached.
        """
        senders = [Sender(probe, self._selector) for probe in self._probes]
        finish(self._selector, max((probe.duration_s for probe in self._probes), default=0))
        return [receiver.measured(sender.end()) for receiver, sender in zip(self._receivers, senders, strict=True)]


def measure(probes: Sequence[Probe], barrier: Callable[[], None]) -> list[Measured]:
    """Measure this host's links while everyone does; ``barrier`` waits for everyone.

    Raises:
        WorkerError: an address cannot be used, or a neighbour cannot be reached.
    """
    with Bursts(probes) as bursts:
        barrier()  # everyone listens
        found = bursts.run()
    barrier()  # the links are empty again
    return found


def finish(selector: selectors.BaseSelector, duration_s: float) -> None:
    """Move every sender and receiver of ``selector`` until all streams have ended, or it takes too long.

    Raises:
        WorkerError: a neighbour cannot be reached.
    """
    deadline = time.monotonic() + (1 + GRACE) * duration_s + GRACE_S
    while selector.get_map() and (left := deadline - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            key.data.move()


class Receiver:
    """Accepts one stream, reads it to its end, and remembers the reads within the window."""

    def __init__(self, probe: Probe, selector: selectors.BaseSelector) -> None:
        self._probe, self._selector = probe, selector
        self._buffer = bytearray(1 << 20)
        self._bytes = 0
        self._first_s = 0.0
        self._marks: list[tuple[float, int]] = []  # (time, bytes so far) at each read in the window
        self._stream: socket.socket | None = None
        self._acknowledged = Sent()
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.setblocking(False)
        try:
            self._listener.bind((probe.local, probe.listen_port))
        except OSError as error:
            self._listener.close()
            place = f"{probe.local}:{probe.listen_port}"
            raise WorkerError(
                f"cannot listen at {place}: {error.strerror}", fix="see that the address is on this host and free"
            ) from error
        self._listener.listen(1)
        selector.register(self._listener, selectors.EVENT_READ, self)

    def move(self) -> None:
        """Accept, or read once."""
        if self._stream is None:
            self._stream, _ = self._listener.accept()
            self._stream.setblocking(False)
            self._selector.unregister(self._listener)
            self._listener.close()
            self._selector.register(self._stream, selectors.EVENT_READ, self)
            return
        try:
            count = self._stream.recv_into(self._buffer)
        except ConnectionError:  # the sender died; what came so far is the answer
            count = 0
        if count:
            self._count(count, time.monotonic())
        else:
            self._selector.unregister(self._stream)
            self._acknowledged = sent(self._stream)
            self._stream.close()

    def _count(self, count: int, now: float) -> None:
        self._bytes += count
        if not self._first_s:
            self._first_s = now
        since = now - self._first_s
        if SETTLE * self._probe.duration_s <= since <= self._probe.duration_s:
            self._marks.append((now, self._bytes))

    def measured(self, own: Sent) -> Measured:
        """``own`` is what the kernel sent of the burst that left by the same NIC."""
        return Measured(self._probe.local, self.rate_bps(), self._probe.rate_bps, self._bytes, own, self._acknowledged)

    def rate_bps(self) -> float:
        return median_rate_bps(self._marks)


def median_rate_bps(marks: Sequence[tuple[float, int]]) -> float:
    """Median over :data:`SLICES` equal slices of the time that ``marks``, (seconds, bytes so far), cover.

    Between two marks bytes arrive evenly. 0 for fewer than two marks.
    """
    if len(marks) < 2:
        return 0.0
    times, counts = zip(*marks, strict=True)
    edges = np.linspace(times[0], times[-1], SLICES + 1)
    arrived = np.diff(np.interp(edges, times, counts))
    return 8 * float(np.median(arrived)) / float(edges[1] - edges[0])


class Sender:
    """Connects, sends zeros for the duration, ends the stream."""

    def __init__(self, probe: Probe, selector: selectors.BaseSelector) -> None:
        self._probe, self._selector = probe, selector
        self._end_s = 0.0
        self._sock = socket.socket()
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
        if probe.loses:
            with suppress(OSError):
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, UNDETERRED)
        unsent = min(max(int(_UNSENT_S * probe.rate_bps / 8), _UNSENT_BYTES[0]), _UNSENT_BYTES[1])
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent)
        self._zeros = _ZEROS[:unsent]
        if probe.pace_bps is not None:
            self._sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, probe.pace_bps // 8)
        self._sock.bind((probe.local, 0))
        self._sock.connect_ex((probe.remote, probe.send_port))
        selector.register(self._sock, selectors.EVENT_WRITE, self)

    def move(self) -> None:
        """Finish connecting, send once, or end the stream."""
        now = time.monotonic()
        self._end_s = self._end_s or now + self._probe.duration_s
        try:
            if now < self._end_s:
                self._sock.send(self._zeros)
                return
        except BlockingIOError:
            return
        except OSError as error:
            raise NeighbourError(
                f"the burst to {self._probe.remote}:{self._probe.send_port} broke off: {error.strerror}",
                fix="see the log of the worker at that address",
            ) from error
        self._selector.unregister(self._sock)
        with suppress(OSError):  # the receiver died, which its own error tells
            self._sock.shutdown(socket.SHUT_WR)  # what is unsent still goes out, then the stream's end

    def end(self) -> Sent:
        """Close the connection, which has ended; what the kernel has sent."""
        with self._sock:
            return sent(self._sock)
