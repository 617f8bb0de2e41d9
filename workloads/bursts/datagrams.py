"""The two ends of a burst over links that are to lose packets, to drop them, or to let some overtake others: datagrams.

TCP slows down for all of that, and its receiver gets nothing of what came after a lost packet until that came again,
and then all at once. With 1 % lost, bursts of bbr seemed to run at 0.5 to 1.1 of a link that carried all it was given.
Datagrams leave as fast as the NIC takes them, whatever becomes of those before.

Each fills a packet, and counts as what TCP would carry in that packet: so rates and bytes mean the same as a stream's.
The last ones have a single byte, and say that it is over; there are some, for they may be lost.
"""

from __future__ import annotations

import selectors
import socket
import time
from contextlib import suppress

from testbed.workloads.bursts.arrivals import Arrivals, bind, broke_off
from testbed.workloads.job import Probe

IP_MTU = 14
UDP_SEGMENT, UDP_GRO = 103, 104
"""Socket options of linux/in.h and linux/udp.h; Python does not name them. With them one call hands the kernel, or
gets, many datagrams."""
ROOM_BYTES = 4 << 20
"""Size of the receiver's buffer for data that has come and was not read yet, where net.core.rmem_max allows so much."""
LARGEST_BYTES, MOST_SEGMENTS, MOST_S = 65_507, 40, 0.001
"""Limits of one call: its payload; its datagrams, of which the kernel takes 64; and how long (s) they take at the
link's rate, so that they arrive evenly. TCP sends about as much at once."""
UDP_HEADERS, TCP_HEADERS, ETHERNET = 28, 52, 14
LAST, HEARD = 20, 3
"""Number of one-byte datagrams that mark the end, and how many of them must come before they are believed: some may be
lost, and one may overtake."""
NAP_S = 0.001
"""Time (s) until a paced sender looks again; a receiver's buffer holds what comes meanwhile."""


def mtu_of(probe: Probe) -> int:
    """Return the MTU of the NIC by which a burst leaves."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind((probe.local, 0))
        one.connect((probe.remote, probe.send_port))
        return min(one.getsockopt(socket.IPPROTO_IP, IP_MTU), LARGEST_BYTES + UDP_HEADERS)


class DatagramReceiver:
    """Receiver of datagrams, until it is told that the burst is over."""

    def __init__(self, probe: Probe, selector: selectors.BaseSelector) -> None:
        """Set up. Raises WorkerError: the address cannot be used."""
        self._selector, self._source = selector, probe.source
        self._buffer = bytearray(1 << 16)
        self.arrivals = Arrivals(probe.duration_s, probe.rate_bps)
        self.acknowledged_bytes = self._heard = 0
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM_BYTES)
        bind(self._sock, probe.local, probe.listen_port)
        mtu = mtu_of(probe)
        self._as_stream = (mtu - TCP_HEADERS) / (mtu - UDP_HEADERS)
        selector.register(self._sock, selectors.EVENT_READ, self)

    def move(self) -> None:
        """Read once."""
        count, (address, _) = self._sock.recvfrom_into(self._buffer)
        if address != self._source:
            return
        if count > LAST:
            self.arrivals.add(count * self._as_stream, time.monotonic())
            return
        self._heard += count
        if self._heard >= HEARD:
            self._selector.unregister(self._sock)
            self._sock.close()


class DatagramSender:
    """Sender of datagrams for the duration of a burst."""

    def __init__(self, probe: Probe, selector: selectors.BaseSelector, unsent_bytes: int) -> None:
        """Set up; ``unsent_bytes`` is how much of them the kernel may hold."""
        self._probe, self._selector = probe, selector
        mtu = mtu_of(probe)
        payload = mtu - UDP_HEADERS
        self._frame_bytes = mtu + ETHERNET
        at_once_bytes = min(unsent_bytes // 2, LARGEST_BYTES, int(MOST_S * probe.rate_bps / 8))
        self._segments = min(max(1, at_once_bytes // payload), MOST_SEGMENTS)
        self._zeros = bytes(self._segments * payload)
        self._begin_s = 0.0
        self.sent_bytes = 0
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, unsent_bytes)
        self._sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, payload)
        self._sock.bind((probe.local, 0))
        self._sock.connect((probe.remote, probe.send_port))
        selector.register(self._sock, selectors.EVENT_WRITE, self)

    def move(self) -> None:
        """Send once, or end."""
        now = time.monotonic()
        self._begin_s = self._begin_s or now
        since = now - self._begin_s
        if since >= self._probe.duration_s:
            self._end()
            return
        if self._probe.pace_bps is not None and 8 * self.sent_bytes > since * self._probe.pace_bps:
            time.sleep(NAP_S)
            return
        try:
            self._sock.send(self._zeros)
            self.sent_bytes += self._segments * self._frame_bytes
        except BlockingIOError:
            return
        except OSError as error:
            raise broke_off(self._probe, error) from error

    def _end(self) -> None:
        self._selector.unregister(self._sock)
        self._sock.setblocking(True)  # what is unsent goes first
        for _ in range(LAST):
            with suppress(OSError):  # the receiver has heard it, and is gone
                self._sock.send(b"\0")

    def end(self) -> int:
        """Close the socket; return the bytes of all frames that left."""
        self._sock.close()
        return self.sent_bytes
