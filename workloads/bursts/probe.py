"""Measurement of the links' real rates: before training, every NIC sends and receives at full speed at once.

Each NIC sends for ``duration_s`` and then ends its stream; the receiver reads to the end, so that nothing is left in
any queue when training starts. The rate is taken at the receiver (:mod:`testbed.workloads.bursts.arrivals`). Bursts are
streams of TCP, or datagrams (:mod:`testbed.workloads.bursts.datagrams`) where links are to lose, drop or reorder
packets.
"""

from __future__ import annotations

import selectors
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from testbed.workloads.bursts.arrivals import Arrivals, bind, broke_off
from testbed.workloads.bursts.datagrams import DatagramReceiver, DatagramSender
from testbed.workloads.job import Probe
from testbed.workloads.sync.tcp_info import sent

CONGESTION_CONTROL = b"reno"
"""Congestion control of bursts, whatever the trial uses: it is in every kernel, and in slow start until a packet is
lost. Cubic leaves slow start when delay rises (HyStart); then one burst in thirty was still growing towards the link's
rate a second later."""
SO_MAX_PACING_RATE = 47
"""Socket option for the pacing rate in bytes per second (asm-generic/socket.h); Python does not name it."""
GRACE_S, GRACE = 3.0, 0.1
"""How long after the burst's duration a late neighbour or a draining queue is waited for: so many seconds, and this
share of the duration, which is long where links are slow."""
_UNSENT_BYTES, _UNSENT_S = (1 << 13, 1 << 17), 0.05
"""Limits of the unsent bytes that the kernel holds, least and most, and the time (s) that they take between these
limits: little, so that the stream's end follows the duration closely and a slow link is empty again when training
begins; enough for whole packets."""
_ZEROS = memoryview(bytes(_UNSENT_BYTES[1]))


@dataclass(frozen=True)
class Measured:
    """Payload that arrived at one NIC: rate in the window, and all bytes of the burst. 0 bit/s if nothing came. Also,
    in frames with their headers, the bytes of the burst that left by this NIC, and the bytes that acknowledged the
    burst that came."""

    port_address: str
    rate_bps: float
    asked_bps: int
    bytes: int
    sent_bytes: int
    acknowledged_bytes: int


class Bursts:
    """All bursts of one host. Construct (which opens the listeners), let every host do so, then :meth:`run`."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        """Open the listeners. Raises WorkerError: an address cannot be used."""
        self._selector = selectors.DefaultSelector()
        self._probes = probes
        self._receivers = [receive(probe, self._selector) for probe in probes]

    def __enter__(self) -> Bursts:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._selector.get_map().values()):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            sock.close()
        self._selector.close()

    def run(self) -> list[Measured]:
        """Send and receive; this takes ``duration_s`` and the time to drain, at most ``GRACE_S`` and ``GRACE`` of it
        more.

        Raises:
            NeighbourError: a neighbour cannot be reached.
        """
        senders = [send(probe, self._selector) for probe in self._probes]
        finish(self._selector, max((probe.duration_s for probe in self._probes), default=0))
        return [
            Measured(
                probe.local,
                receiver.arrivals.rate_bps,
                probe.rate_bps,
                round(receiver.arrivals.bytes),
                sender.end(),
                receiver.acknowledged_bytes,
            )
            for probe, receiver, sender in zip(self._probes, self._receivers, senders, strict=True)
        ]


def receive(probe: Probe, selector: selectors.BaseSelector) -> Receiver | DatagramReceiver:
    """Expect a burst.

    Raises:
        WorkerError: the address cannot be used.
    """
    return Receiver(probe, selector) if probe.datagram_bytes is None else DatagramReceiver(probe, selector)


def send(probe: Probe, selector: selectors.BaseSelector) -> Sender | DatagramSender:
    """Begin a burst."""
    unsent = min(max(int(_UNSENT_S * probe.rate_bps / 8), _UNSENT_BYTES[0]), _UNSENT_BYTES[1])
    if probe.datagram_bytes is None:
        return Sender(probe, selector, unsent)
    return DatagramSender(probe, selector, min(unsent, probe.datagram_bytes))


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
    """Receiver of one stream from the burst's source: it reads to the end."""

    def __init__(self, probe: Probe, selector: selectors.BaseSelector) -> None:
        self._selector, self._source = selector, probe.source
        self._buffer = bytearray(1 << 20)
        self.arrivals = Arrivals(probe.duration_s, probe.rate_bps)
        self.acknowledged_bytes = 0
        self._stream: socket.socket | None = None
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.setblocking(False)
        bind(self._listener, probe.local, probe.listen_port)
        self._listener.listen()
        selector.register(self._listener, selectors.EVENT_READ, self)

    def move(self) -> None:
        """Accept, or read once."""
        if self._stream is None:
            stream, (address, _) = self._listener.accept()
            if address != self._source:
                stream.close()
                return
            self._stream = stream
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
            self.arrivals.add(count, time.monotonic())
        else:
            self._selector.unregister(self._stream)
            self.acknowledged_bytes = sent(self._stream).wire_bytes
            self._stream.close()


class Sender:
    """Sender of one stream: it connects, sends zeros for the duration, and ends the stream."""

    def __init__(self, probe: Probe, selector: selectors.BaseSelector, unsent_bytes: int) -> None:
        """Set up; ``unsent_bytes`` is how much of the stream the kernel may hold."""
        self._probe, self._selector = probe, selector
        self._end_s = 0.0
        self._sock = socket.socket()
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)
        self._zeros = _ZEROS[:unsent_bytes]
        if probe.pace_bps is not None:
            # as an unsigned long (Linux 4.20): an int ends at 17 Gbit/s
            pace = (probe.pace_bps // 8).to_bytes(8, sys.byteorder)
            self._sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, pace)
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
            raise broke_off(self._probe, error) from error
        self._selector.unregister(self._sock)
        with suppress(OSError):  # the receiver died, which its own error tells
            self._sock.shutdown(socket.SHUT_WR)  # what is unsent still goes out, then the stream's end

    def end(self) -> int:
        """Close the connection; return the bytes of all frames that left."""
        with self._sock:
            return sent(self._sock).wire_bytes
