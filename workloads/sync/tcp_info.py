"""What TCP has put on the wire for one connection, by the kernel's own count: data, what was sent again, and
acknowledgements of what came the other way.

How many acknowledgements there are, and how much is sent again, follows from losses, from packets that overtake each
other and from how many the kernel hands up at once. So it is counted and not computed.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from testbed.base.errors import WorkerError

_BYTES = 256
"""Of ``struct tcp_info`` (linux/tcp.h), which grows at its end."""
_SEGMENTS_OUT, _BYTES_SENT = struct.Struct("=I"), struct.Struct("=QQ")
_SEGMENTS_OUT_AT, _BYTES_SENT_AT = 136, 200
"""``tcpi_segs_out``, of all kinds; ``tcpi_bytes_sent``, with what was sent again, and then ``tcpi_bytes_retrans``."""
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


def sent(sock: socket.socket) -> Sent:
    """Since the connection was opened.

    Raises:
        WorkerError: the kernel does not count bytes.
    """
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES)
    if len(info) < _BYTES_SENT_AT + _BYTES_SENT.size:
        raise WorkerError("this kernel does not say what TCP sent again", fix="take Linux 4.19 or newer")
    (segments,) = _SEGMENTS_OUT.unpack_from(info, _SEGMENTS_OUT_AT)
    all_bytes, again_bytes = _BYTES_SENT.unpack_from(info, _BYTES_SENT_AT)
    return Sent(all_bytes - again_bytes, all_bytes + HEADERS_BYTES * segments)
