"""What TCP has put on the wire for one connection, by the kernel's own count: data, what was sent again, and
acknowledgements of what came the other way.

How many acknowledgements there are, and how much is sent again, follows from losses, from packets that overtake each
other and from how many the kernel hands up at once. So it is counted and not computed.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from fcntl import ioctl
from termios import TIOCOUTQ

from testbed.base.errors import WorkerError

BYTES = 256
"""Of ``struct tcp_info`` (linux/tcp.h), which grows at its end."""
_BYTES_RECEIVED, _SEGMENTS, _BYTES_SENT = struct.Struct("=Q"), struct.Struct("=II"), struct.Struct("=QQ")
_BYTES_RECEIVED_AT, _SEGMENTS_OUT_AT, _BYTES_SENT_AT = 128, 136, 200
"""``tcpi_bytes_received``; ``tcpi_segs_out``, of all kinds, and then ``tcpi_segs_in``; ``tcpi_bytes_sent``, with what
was sent again, and then ``tcpi_bytes_retrans``."""
_IS_CLOSED = 7
"""``tcpi_state``, a byte at the beginning: TCP_CLOSE, which counts what was never acknowledged on."""
_WINDOW, _WINDOW_AT = struct.Struct("=I"), 228
"""``tcpi_snd_wnd``, bytes."""
_NAME_BYTES = 16
"""Of a congestion control's name (TCP_CA_NAME_MAX)."""
HEADERS_BYTES = 14 + 20 + 32
"""Of Ethernet, IP, and TCP with timestamps, in each packet."""


@dataclass(frozen=True)
class Sent:
    """What one end of a connection has sent.

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
        """What went over the wire beyond the stream in full packets: what was sent again, acknowledgements, and headers
        of packets that were not full."""
        return max(0.0, self.wire_bytes - self.payload_bytes / goodput)


def congestion_control(sock: socket.socket) -> str:
    """What the kernel really gave a connection, or gives new ones."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _NAME_BYTES).rstrip(b"\0").decode()


def sent(sock: socket.socket) -> Sent:
    """Since the connection was opened.

    Raises:
        WorkerError: the kernel does not count bytes.
    """
    return read(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES))[0]


def unacknowledged_bytes(sock: socket.socket) -> int:
    """What the kernel has of a connection that has not been acknowledged, and may still be: 0 once either end is
    gone."""
    try:
        count = int.from_bytes(ioctl(sock.fileno(), TIOCOUTQ, b"\0" * 4), "little")
        return count if sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _IS_CLOSED else 0
    except (OSError, ValueError):
        return 0


def room_bytes(sock: socket.socket) -> int:
    """For how much more than it has been given the other end has room, as far as the kernel knows.

    Raises:
        WorkerError: the kernel does not say so.
    """
    had_bytes = unacknowledged_bytes(sock)  # first: what is acknowledged meanwhile takes from both, so room is too low
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES)
    if len(info) < _WINDOW_AT + _WINDOW.size:
        raise WorkerError("this kernel does not say for how much a neighbour has room", fix="take Linux 5.4 or newer")
    return max(0, int(_WINDOW.unpack_from(info, _WINDOW_AT)[0]) - had_bytes)


def read(info: bytes) -> tuple[Sent, int]:
    """From ``struct tcp_info``: what was sent, and the bytes of all frames that came, each byte of the stream once.

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
