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
CONFIG = SUBSYSTEM | 2
CFG_CMD, CFG_PARAMS, CFG_QUEUE_MAXLEN, CFG_MASK, CFG_FLAGS = range(1, 6)
CMD_BIND, COPY_META, COPY_PACKET, F_GSO = 1, 1, 2, 4
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35

NFGENMSG = struct.Struct(">BBH")  # struct nfgenmsg: family, version, queue

MOST_WAITING = 2**20
"""The most packets that a queue holds before it drops: 20 s of full packets at 600 Mbit/s."""
BUFFER_BYTES = 8 * 2**20
"""Bytes of room for news of packets that were not read yet; an unprivileged user gets less."""


class QueueSocket:
    """Netfilter queue ``number`` of the network namespace that the calling thread is in when this is made."""

    def __init__(self, number: int, *, cuts: bool = False) -> None:
        """Raises LabError: the kernel refuses it."""
        self.number = number
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
        self.socket.bind((0, 0))
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        except PermissionError:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        bind = attribute(CFG_CMD, struct.pack(">BxH", CMD_BIND, socket.AF_INET))
        meta = attribute(CFG_PARAMS, struct.pack(">IB", 0, COPY_META))
        room = attribute(CFG_QUEUE_MAXLEN, struct.pack(">I", MOST_WAITING))
        flags = attribute(CFG_FLAGS, struct.pack(">I", 0 if cuts else F_GSO))
        flags += attribute(CFG_MASK, struct.pack(">I", F_GSO))
        for body in (bind, meta + room, flags):
            self._configure(body, NLM_F_ACK)
            self._acknowledged()
        self.socket.setblocking(False)

    def ask_for_lengths(self, wanted: bool) -> None:
        """Have the kernel say, or not say, how long each packet is from now on; done when this returns."""
        # It says so of packets that it copies in part: a byte.
        self._configure(attribute(CFG_PARAMS, struct.pack(">IB", 1, COPY_PACKET if wanted else COPY_META)), 0)

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


def error_code(message: bytes) -> int:
    """The error that a message reports; 0 for an acknowledgement and for what reports nothing."""
    kind = HEADER.unpack_from(message)[1]
    return -int(ERROR_CODE.unpack_from(message, HEADER.size)[0]) if kind == NLMSG_ERROR else 0


def stamping() -> socket.socket:
    """Open a socket: while it is open, the kernel notes when each packet arrives (as it does while tcpdump runs)."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return one
