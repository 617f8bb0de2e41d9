"""Bytes that TCP has put on the wire for one connection, by the kernel's own count: data, segments sent again, and
acknowledgements of data in the other direction. Besides, how much is not acknowledged yet, how much has come and is
unread, how much the other end has room for, and how fast the connection is.

How many acknowledgements there are, and how much is sent again, follows from losses, from packets that overtake each
other and from how many the kernel hands up at once. So it is counted and not computed.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from fcntl import ioctl
from termios import FIONREAD, TIOCOUTQ

from testbed.base.errors import WorkerError

BYTES = 256
"""Bytes that are read of ``struct tcp_info`` (linux/tcp.h), which grows at its end."""
_BYTES_RECEIVED, _SEGMENTS, _BYTES_SENT = struct.Struct("=Q"), struct.Struct("=II"), struct.Struct("=QQ")
_BYTES_RECEIVED_AT, _SEGMENTS_OUT_AT, _BYTES_SENT_AT = 128, 136, 200
"""Offsets of ``tcpi_bytes_received``; of ``tcpi_segs_out``, of all kinds, and then ``tcpi_segs_in``; and of
``tcpi_bytes_sent``, with what was sent again, and then ``tcpi_bytes_retrans``."""
_IS_CLOSED = 7
"""Value of ``tcpi_state``, the first byte: TCP_CLOSE. The kernel goes on counting what was never acknowledged then."""
_SCALES_AT = 6
"""Offset of a byte whose lower half is ``tcpi_snd_wscale``."""
_WINDOW, _WINDOW_AT = struct.Struct("=I"), 228
"""Format and offset of ``tcpi_snd_wnd``, bytes."""
_LIMITS_AT, _IS_APPLICATION = 7, 1
"""Offset of a byte whose lowest bit is ``tcpi_delivery_rate_app_limited``."""
_RTT, _RTT_AT = struct.Struct("=I"), 68
"""Format and offset of ``tcpi_rtt``, microseconds."""
_RATES, _RATES_AT = struct.Struct("=QQ"), 160
"""Format and offset of ``tcpi_delivery_rate``, bytes/s, and then ``tcpi_busy_time``, microseconds."""
_NAME_BYTES = 16
"""Most bytes of a congestion control's name (TCP_CA_NAME_MAX)."""
HEADERS_BYTES = 14 + 20 + 32
"""Bytes of the headers of Ethernet, IP, and TCP with timestamps, in each packet."""


@dataclass(frozen=True)
class Sent:
    """Bytes that one end of a connection has sent.

    Attributes:
        payload_bytes: of the stream, each byte once.
        wire_bytes: of all frames, headers included. What the options of selective acknowledgements take, at most 28
            bytes of a frame, is not counted.
    """

    payload_bytes: int = 0
    wire_bytes: int = 0

    def __add__(self, other: Sent) -> Sent:
        return Sent(self.payload_bytes + other.payload_bytes, self.wire_bytes + other.wire_bytes)

    def extra_bytes(self, goodput: float) -> float:
        """Count the bytes on the wire beyond the stream in full packets: segments sent again, acknowledgements, and
        headers of packets that were not full."""
        return max(0.0, self.wire_bytes - self.payload_bytes / goodput)


def added(some: Mapping[int, Sent], more: Mapping[int, Sent]) -> dict[int, Sent]:
    """Add up what was sent to each node."""
    return {**some, **{node: some.get(node, Sent()) + each for node, each in more.items()}}


@dataclass(frozen=True)
class Speed:
    """Speed of one end of a connection.

    Attributes:
        rtt_s: its smoothed round trip.
        rate_bps: payload that was delivered in a time, by the kernel's last measurement; None if the application sent
            less than the network would have carried.
        busy_s: for how long the kernel has had something to send, or to be acknowledged, since it was opened.
    """

    rtt_s: float
    rate_bps: float | None
    busy_s: float


def congestion_control(sock: socket.socket) -> str:
    """Return the congestion control that the kernel really gave a connection, or gives new ones."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _NAME_BYTES).rstrip(b"\0").decode()


def sent(sock: socket.socket) -> Sent:
    """Count the bytes that were sent since the connection was opened.

    Raises:
        WorkerError: the kernel does not count bytes.
    """
    return read(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES))[0]


def unacknowledged_bytes(sock: socket.socket) -> int:
    """Count the bytes that the kernel has of a connection, and that are not acknowledged yet; 0 once it is closed here,
    or was reset."""
    try:
        return _count(sock, TIOCOUTQ) if sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _IS_CLOSED else 0
    except (OSError, ValueError):
        return 0


def unread_bytes(sock: socket.socket) -> int:
    """Count the bytes that have come over a connection, and can be read; 0 once it is closed here."""
    try:
        return _count(sock, FIONREAD)
    except (OSError, ValueError):
        return 0


def _count(sock: socket.socket, asked: int) -> int:
    return int.from_bytes(ioctl(sock.fileno(), asked, b"\0" * 4), "little")


def room_bytes(sock: socket.socket, left_bytes: int = 0) -> int:
    """Return how many more bytes the other end has room for, beyond those that the kernel was given, as far as it
    knows, and if ``left_bytes`` are to stay free.

    What stays free is a multiple of the unit in which the other end counts its window. It rounds other windows up when
    it acknowledges (``tcp_select_window``, Linux's net/ipv4/tcp_output.c), and so would seem to have room for ever.

    Raises:
        WorkerError: the kernel does not say so.
    """
    had_bytes = unacknowledged_bytes(sock)  # first: an acknowledgement in between makes room too low, not too high
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES)
    if len(info) < _WINDOW_AT + _WINDOW.size:
        raise WorkerError("this kernel does not say for how much a neighbour has room", fix="take Linux 5.4 or newer")
    unit_bytes = 1 << (info[_SCALES_AT] & 15)
    free_bytes = -(-left_bytes // unit_bytes) * unit_bytes
    return max(0, int(_WINDOW.unpack_from(info, _WINDOW_AT)[0]) - had_bytes - free_bytes)


def speed(info: bytes) -> Speed:
    """Read from ``struct tcp_info`` how fast a connection is.

    Raises:
        WorkerError: the kernel does not measure rates.
    """
    if len(info) < _RATES_AT + _RATES.size:
        raise WorkerError("this kernel does not measure TCP's rates", fix="take Linux 4.19 or newer")
    (rtt_us,), (rate, busy_us) = _RTT.unpack_from(info, _RTT_AT), _RATES.unpack_from(info, _RATES_AT)
    is_limited = bool(info[_LIMITS_AT] & _IS_APPLICATION)
    return Speed(1e-6 * rtt_us, 8.0 * rate if rate and not is_limited else None, 1e-6 * busy_us)


def read(info: bytes) -> tuple[Sent, int]:
    """Read from ``struct tcp_info`` what was sent, and the bytes of all frames that came, each byte of the stream once.

    Raises:
        WorkerError: the kernel does not count bytes.
    """
    if len(info) < _BYTES_SENT_AT + _BYTES_SENT.size:
        raise WorkerError("this kernel does not say what TCP sent again", fix="take Linux 4.19 or newer")
    segments, segments_in = _SEGMENTS.unpack_from(info, _SEGMENTS_OUT_AT)
    all_bytes, again_bytes = _BYTES_SENT.unpack_from(info, _BYTES_SENT_AT)
    (received_bytes,) = _BYTES_RECEIVED.unpack_from(info, _BYTES_RECEIVED_AT)
    sent = Sent(all_bytes - again_bytes, all_bytes + HEADERS_BYTES * segments)
    return sent, received_bytes + HEADERS_BYTES * segments_in
