"""What the kernel says about a network namespace, not decoded: for another decoder than ours (:mod:`second_reading`).

Apart from that module, which imports pyroute2, so that a sandbox and an agent on a host need not have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.lab.netns import rtnetlink, shaping
from testbed.lab.netns.netlink import RouteSocket


@dataclass(frozen=True)
class Said:
    """What the kernel said about one node: its messages as they came."""

    qdiscs: bytes
    classes: bytes
    addresses: bytes
    routes: bytes


def listen(netlink: RouteSocket, indices: Sequence[int], *, routes: bool) -> Said:
    """What the kernel says about the namespace of a socket, with the classes of these interfaces.

    Raises:
        NetlinkError: it refuses.
    """
    qdiscs = netlink.dump_raw(shaping.list_qdiscs())
    classes = b"".join(netlink.dump_raw(shaping.list_classes(index)) for index in indices)
    addresses = netlink.dump_raw(rtnetlink.list_addresses())
    netlink.filter()
    return Said(qdiscs, classes, addresses, netlink.dump_raw(rtnetlink.list_static_routes()) if routes else b"")
