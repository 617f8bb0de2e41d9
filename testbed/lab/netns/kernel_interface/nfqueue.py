"""Netfilter queues: the kernel says that a packet has come, and keeps it until it is told what becomes of it.

Only an id and the time of arrival leave the kernel, and the length if it is asked for, never the packet. A large packet
that the sender has left to be cut later (GSO) is one packet in a queue of whole packets; one that cuts makes as many of
it as go over the wire. Numbers and layouts are those of ``linux/netfilter/nfnetlink_queue.h``.
"""

from __future__ import annotations

import errno
import socket
import struct

from testbed.base.errors import LabError
from testbed.lab.netns.kernel_interface.netlink import (
    ERROR_CODE,
    HEADER,
    NLM_F_ACK,
    NLM_F_REQUEST,
    NLMSG_ERROR,
    attribute,
)

NETLINK_NETFILTER = 12
SUBSYSTEM = 3 << 8
VERDICT, CONFIG, VERDICT_BATCH = (SUBSYSTEM | kind for kind in range(1, 4))
NFQA_VERDICT_HDR, NFQA_TIMESTAMP, NFQA_CAP_LEN = 2, 4, 13
CFG_CMD, CFG_PARAMS, CFG_QUEUE_MAXLEN, CFG_MASK, CFG_FLAGS = range(1, 6)
CMD_BIND, COPY_META, COPY_PACKET, F_GSO = 1, 1, 2, 4
DROP, ACCEPT, QUEUE = 0, 1, 3
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35

NFGENMSG = struct.Struct(">BBH")  # struct nfgenmsg: family, version, queue
VERDICT_MESSAGE = struct.Struct("=IHHII BBH HH II")  # nlmsghdr, nfgenmsg, and one nfqnl_msg_verdict_hdr as attribute
ID = struct.Struct(">I")
ID_AT = 24
"""Offset of the packet's id: it is the first attribute, after the message's two headers."""
STAMP = struct.Struct(">QQ")  # struct nfqnl_msg_packet_timestamp: seconds, microseconds of the real-time clock
STAMP_HEADER = struct.pack("=HH", 4 + STAMP.size, NFQA_TIMESTAMP)
LENGTH = struct.Struct(">I")
LENGTH_HEADER = struct.pack("=HH", 4 + LENGTH.size, NFQA_CAP_LEN)

MOST_WAITING = 2**20
"""The most packets that a queue holds before it drops: 20 s of full packets at 600 Mbit/s."""
BUFFER_BYTES = 8 * 2**20
"""Bytes of room for news of packets that were not read yet; an unprivileged user gets less."""


class QueueSocket:
    """Netfilter queue ``number`` of the network namespace that the calling thread is in when this is made."""

    def __init__(self, number: int, *, cuts: bool = False) -> None:
        """
        Raises:
            LabError: the kernel refuses it.
        """
        self.number, self._in_verdicts = number, socket.htons(number)
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
        self.socket.bind((0, 0))
        self._enlarge()
        bind = attribute(CFG_CMD, struct.pack(">BxH", CMD_BIND, socket.AF_INET))
        meta = attribute(CFG_PARAMS, struct.pack(">IB", 0, COPY_META))
        room = attribute(CFG_QUEUE_MAXLEN, struct.pack(">I", MOST_WAITING))
        for body in (bind, meta + room, self._flags(cuts)):
            self._configure(body, NLM_F_ACK)
            self._acknowledged()
        self.socket.setblocking(False)

    def ask_for_lengths(self, wanted: bool) -> None:
        """Have the kernel say, or not say, how long each packet is from now on; done when this returns."""
        # It says so of packets that it copies in part: a byte.
        self._configure(attribute(CFG_PARAMS, struct.pack(">IB", 1, COPY_PACKET if wanted else COPY_META)), 0)

    def accept_up_to(self, packet: int) -> None:
        """Let this packet and all that came before it go on."""
        self.socket.send(self._verdict(VERDICT_BATCH, ACCEPT, packet))

    def accept(self, packet: int) -> None:
        """Let one packet go on, ahead of those that came before it."""
        self.socket.send(self._verdict(VERDICT, ACCEPT, packet))

    def drop(self, packet: int) -> None:
        """Drop one packet."""
        self.socket.send(self._verdict(VERDICT, DROP, packet))

    def move(self, packet: int, queue: int) -> None:
        """Have one packet wait in another queue; whoever listens there can read of it when this returns."""
        self.socket.send(self._verdict(VERDICT, QUEUE | queue << 16, packet))

    def _enlarge(self) -> None:
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        except PermissionError:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)

    def _flags(self, cuts: bool) -> bytes:
        flags = 0 if cuts else F_GSO
        return attribute(CFG_FLAGS, struct.pack(">I", flags)) + attribute(CFG_MASK, struct.pack(">I", F_GSO))

    def _configure(self, body: bytes, flags: int) -> None:
        length = HEADER.size + NFGENMSG.size + len(body)
        head = HEADER.pack(length, CONFIG, NLM_F_REQUEST | flags, 0, 0)
        self.socket.send(head + NFGENMSG.pack(socket.AF_UNSPEC, 0, self.number) + body)

    def _acknowledged(self) -> None:
        """Wait for an acknowledgement: nothing else comes before a rule sends packets here."""
        answer = self.socket.recv(4096)
        code = error_code(answer)
        if code:
            raise LabError(f"the kernel refuses netfilter queue {self.number}: {errno.errorcode.get(code, code)}")

    def _verdict(self, kind: int, verdict: int, packet: int) -> bytes:
        return VERDICT_MESSAGE.pack(
            VERDICT_MESSAGE.size, kind, NLM_F_REQUEST, 0, 0,
            socket.AF_UNSPEC, 0, self._in_verdicts,
            12, NFQA_VERDICT_HDR, socket.htonl(verdict), socket.htonl(packet),
        )  # fmt: skip


def error_code(message: bytes) -> int:
    """The error that a message reports; 0 for an acknowledgement and for what reports nothing."""
    kind = HEADER.unpack_from(message)[1]
    return -int(ERROR_CODE.unpack_from(message, HEADER.size)[0]) if kind == NLMSG_ERROR else 0


def attribute_at(message: bytes, length: int, header: bytes) -> int:
    """Offset of an attribute in a message about a packet, such as :data:`STAMP_HEADER`'s, the time of arrival; 0 if the
    kernel did not say."""
    start = HEADER.size + NFGENMSG.size
    while start + 4 <= length:
        if message[start : start + 4] == header:
            return start
        start += (struct.unpack_from("=H", message, start)[0] + 3) & ~3 or length
    return 0


def stamping() -> socket.socket:
    """Open a socket: while it is open, the kernel notes when each packet arrives (as it does while tcpdump runs)."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return one
