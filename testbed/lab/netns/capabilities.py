"""What the kernel can do for this user, found by trying it in the sandbox's own namespace."""

from __future__ import annotations

import errno
import socket

from testbed.errors import LabError, MissingToolError
from testbed.lab.netns import shaping
from testbed.lab.netns.netlink import NetlinkError, RouteSocket

TCP_CONGESTION_CANDIDATES = ("cubic", "reno", "bbr", "dctcp")
LOOPBACK_INDEX = 1


def congestion_controls() -> list[str]:
    """TCP congestion controls that a socket in the calling thread's namespace may choose."""
    allowed = []
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        for name in TCP_CONGESTION_CANDIDATES:
            try:
                probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            except OSError:
                continue  # not in this kernel, or not for us: exactly what is asked here
            allowed.append(name)
    return allowed


def has_qdisc(kind: str) -> bool:
    """Whether the kernel knows a queueing discipline (htb or netem).

    Raises:
        NetlinkError: it was refused for another reason than being unknown or lacking options.
    """
    with RouteSocket() as netlink:
        try:
            netlink.send([shaping.probe(kind, LOOPBACK_INDEX)])
        except NetlinkError as error:
            if error.errno in (errno.ENOENT, errno.EINVAL):
                return error.errno == errno.EINVAL
            raise
    raise LabError(f"the kernel made a {kind} without its options", fix="report this kernel")


def require_qdisc(kind: str, needed_for: str) -> None:
    """
    Raises:
        MissingToolError: the kernel does not know it; the module is named.
    """
    if not has_qdisc(kind):
        raise MissingToolError(
            f"{needed_for} needs the kernel module sch_{kind}, which this kernel does not have",
            fix=f"modprobe sch_{kind} as root, or a kernel built with CONFIG_NET_SCH_{kind.upper()}",
        )
