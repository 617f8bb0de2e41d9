"""Netlink in batches: many requests in one system call, and dumps.

Building a network of a thousand hosts takes tens of thousands of requests. One system call and one parsed answer for
each, as general libraries do it, is most of the time such a build takes. Here requests are packed bytes; a batch
of them goes out in one ``send``; only the last asks for an acknowledgement, because the kernel reports errors unasked.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence number, port
ATTRIBUTE = struct.Struct("=HH")  # struct nlattr: length, type
ERROR_CODE = struct.Struct("=i")  # the start of struct nlmsgerr

NLMSG_ERROR = 2
NLMSG_DONE = 3
NLM_F_REQUEST = 0x001
NLM_F_ACK = 0x004
NLM_F_ECHO = 0x008
NLM_F_DUMP = 0x300
NLM_F_REPLACE = 0x100
NLM_F_CREATE = 0x400
NLM_F_EXCL = 0x200
NLM_F_REPLACE = 0x100
NLM_F_DUMP_INTR = 0x010
NLM_F_ACK_TLVS = 0x200
NLA_TYPE_MASK = 0x3FFF

SOL_NETLINK = 270
NETLINK_CAP_ACK = 10
NETLINK_EXT_ACK = 11
NETLINK_GET_STRICT_CHK = 12
NLMSGERR_ATTR_MSG = 1

BATCH_BYTES = 32 * 1024
ANSWERS_IN_FLIGHT = 32
"""Number of answers that the kernel may queue for us: each costs about 4.5 KB of the 208 KB a socket may hold
unprivileged."""
RECEIVE_BYTES = 256 * 1024
LARGEST_ANSWER_BYTES = 32 * 1024
"""The largest message of the kernel's in bytes (NLMSG_GOODSIZE and what dumps take)."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of netlink: its type, flags beyond ``NLM_F_REQUEST``, packed body, and what it does (for error
    texts)."""

    kind: int
    flags: int
    body: bytes
    purpose: str


class NetlinkError(OSError):
    """Refusal of a request by the kernel; ``purpose`` says which, ``detail`` is the kernel's own explanation, or
    empty."""

    def __init__(self, code: int, purpose: str, detail: str) -> None:
        super().__init__(code, f"{purpose}: {os.strerror(code)}" + (f" ({detail})" if detail else ""))
        self.purpose = purpose
        self.detail = detail


def attribute(kind: int, payload: bytes) -> bytes:
    """Pack an attribute, padded to four bytes."""
    length = 4 + len(payload)
    return ATTRIBUTE.pack(length, kind) + payload + bytes(-length % 4)


def u32(kind: int, value: int) -> bytes:
    """Pack an attribute that is a 32-bit number."""
    return struct.pack("=HHI", 8, kind, value)


def text(kind: int, value: str) -> bytes:
    """Pack an attribute that is a zero-terminated string."""
    return attribute(kind, value.encode() + b"\0")


def attributes(buffer: bytes, start: int) -> dict[int, bytes]:
    """The attributes from ``start`` to the end of ``buffer``, by type."""
    found = {}
    end = len(buffer)
    while start + 4 <= end:
        length, kind = ATTRIBUTE.unpack_from(buffer, start)
        if length < 4:
            break
        found[kind & NLA_TYPE_MASK] = buffer[start + 4 : start + length]
        start += (length + 3) & ~3
    return found


def places(buffer: bytes | bytearray, start: int, end: int) -> dict[int, tuple[int, int]]:
    """Find the payloads of the attributes between ``start`` and ``end``, by type: from where to where. Slower than
    :func:`attributes`, which copies."""
    found = {}
    while start + 4 <= end:
        length, kind = ATTRIBUTE.unpack_from(buffer, start)
        if length < 4:
            break
        found[kind & NLA_TYPE_MASK] = start + 4, start + length
        start += (length + 3) & ~3
    return found


class RouteSocket:
    """A route-netlink socket of the network namespace that the calling thread is in when it is made; of another of
    netlink's families, if that is named."""

    def __init__(self, family: int = socket.NETLINK_ROUTE) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        self._socket.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
        self._socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)

    def __enter__(self) -> RouteSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket, as ``with`` does."""
        self._socket.close()

    def filter(self) -> None:
        """Have dumps list from now on only what is like their request, where the kernel can choose; else they list
        all."""
        self._socket.setsockopt(SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1)

    def drain(self) -> None:
        """Drop answers that nobody has read, after an error."""
        with suppress(BlockingIOError):
            while True:
                self._socket.recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)

    def send(self, requests: Sequence[Request]) -> None:
        """Carry out every request, in order. Raises NetlinkError: the kernel refused one; the first refused is named
        (later ones were tried as well)."""
        start = 0
        while start < len(requests):
            packed, stop = _pack(requests, start)
            self._socket.send(packed)
            self._acknowledgement(requests, stop)
            start = stop

    def _acknowledgement(self, requests: Sequence[Request], stop: int) -> None:
        first_error: NetlinkError | None = None
        while True:
            for kind, flags, sequence, body in _messages(self._socket.recv(RECEIVE_BYTES)):
                if kind != NLMSG_ERROR:
                    continue
                if first_error is None:
                    first_error = _error(flags, body, requests[sequence].purpose)
                if sequence == stop - 1:
                    if first_error is not None:
                        raise first_error
                    return

    def ask(self, requests: Sequence[Request]) -> list[bytes]:
        """Send requests that have one answer each and return the answers' bodies. Raises NetlinkError: there is no such
        thing as was asked about."""
        return self._ask(requests)[0]

    def ask_raw(self, requests: Sequence[Request]) -> bytes:
        """Send requests, as :meth:`ask`, but return the answers as they came, with their headers. Raises NetlinkError:
        there is no such thing as was asked about."""
        return b"".join(self._ask(requests)[1])

    def _ask(self, requests: Sequence[Request]) -> tuple[list[bytes], list[bytes]]:
        answers: list[bytes] = []
        received: list[bytes] = []
        for start in range(0, len(requests), ANSWERS_IN_FLIGHT):
            some = requests[start : start + ANSWERS_IN_FLIGHT]
            self._socket.send(packed(some))
            wanted = len(answers) + len(some)
            while len(answers) < wanted:
                received.append(self._socket.recv(RECEIVE_BYTES))
                for kind, flags, sequence, body in _messages(received[-1]):
                    if kind == NLMSG_ERROR and (error := _error(flags, body, some[sequence].purpose)):
                        raise error
                    answers.append(body)
        return answers, received

    def ask_packed(self, requests: bytes, count: int, buffer: bytearray) -> Iterator[int]:
        """Send ``count`` requests as :func:`packed` has packed them, at most ``ANSWERS_IN_FLIGHT``, with one answer
        each. Every answer, with its header, comes to the start of ``buffer`` in turn; its length is yielded. The kernel
        has answered when it has taken the requests, so nothing is waited for.

        Raises:
            NetlinkError: there is no such thing as was asked about.
            OSError: an answer is missing.
        """
        self._socket.send(requests)
        for _ in range(count):
            length = self._socket.recv_into(buffer, 0, socket.MSG_DONTWAIT)
            _, kind, flags, _, _ = HEADER.unpack_from(buffer)
            if kind == NLMSG_ERROR and (error := _error(flags, bytes(buffer[16:length]), "read again")):
                raise error
            yield length

    def dump(self, request: Request) -> list[bytes]:
        """List everything the kernel has for ``request``; return the bodies. Raises NetlinkError: the kernel
        refused."""
        return self._dump(request)[0]

    def dump_raw(self, request: Request) -> bytes:
        """List, as :meth:`dump`, but return the messages as they came, with their headers. Raises NetlinkError: the
        kernel refused."""
        return b"".join(self._dump(request)[1])

    def _dump(self, request: Request) -> tuple[list[bytes], list[bytes]]:
        while True:
            self._socket.send(_one(request, 0, NLM_F_DUMP))
            bodies, received, interrupted = self._listing(request.purpose)
            if not interrupted:
                return bodies, received

    def _listing(self, purpose: str) -> tuple[list[bytes], list[bytes], bool]:
        bodies: list[bytes] = []
        received: list[bytes] = []
        interrupted = False
        while True:
            received.append(self._socket.recv(RECEIVE_BYTES))
            for kind, flags, _, body in _messages(received[-1]):
                interrupted |= bool(flags & NLM_F_DUMP_INTR)
                if kind == NLMSG_DONE:
                    return bodies, received, interrupted
                if kind == NLMSG_ERROR and (error := _error(flags, body, purpose)):
                    raise error
                bodies.append(body)


def packed(requests: Sequence[Request]) -> bytes:
    """Pack requests that the kernel answers, as they are sent."""
    return b"".join(_one(request, i, 0) for i, request in enumerate(requests))


def _one(request: Request, sequence: int, extra_flags: int) -> bytes:
    flags = NLM_F_REQUEST | request.flags | extra_flags
    return HEADER.pack(16 + len(request.body), request.kind, flags, sequence, 0) + request.body


def _pack(requests: Sequence[Request], start: int) -> tuple[bytes, int]:
    """Pack the requests from ``start`` that fit one batch; the bytes, and the index after the last of them."""
    size = 0
    stop = start
    while stop < len(requests) and (size == 0 or size + len(requests[stop].body) + 16 <= BATCH_BYTES):
        size += len(requests[stop].body) + 16
        stop += 1
    last = stop - 1
    return b"".join(_one(requests[i], i, NLM_F_ACK if i == last else 0) for i in range(start, stop)), stop


def _messages(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield type, flags, sequence number and body of each message in ``data``."""
    start = 0
    while start + 16 <= len(data):
        length, kind, flags, sequence, _ = HEADER.unpack_from(data, start)
        yield kind, flags, sequence, data[start + 16 : start + length]
        start += (length + 3) & ~3


def _error(flags: int, body: bytes, purpose: str) -> NetlinkError | None:
    """Parse an NLMSG_ERROR: None for an acknowledgement."""
    code = -ERROR_CODE.unpack_from(body)[0]
    if code == 0:
        return None
    # After the code comes the header of the refused request, then the explanation.
    detail = attributes(body, 4 + 16).get(NLMSGERR_ATTR_MSG, b"") if flags & NLM_F_ACK_TLVS else b""
    return NetlinkError(code, purpose, detail.rstrip(b"\0").decode())
