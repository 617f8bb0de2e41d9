"""Messages of the kernel about a network namespace, not decoded: for another decoder than ours (:mod:`second_reading`).

Apart from that module, which imports pyroute2, so that a sandbox and an agent on a host need not have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.lab.netns.kernel_interface import rtnetlink, shaping
from testbed.lab.netns.kernel_interface.netlink import RouteSocket


@dataclass(frozen=True)
class Said:
    """Messages of the kernel about one node, as they came."""

    qdiscs: bytes
    classes: bytes
    addresses: bytes
    routes: bytes
    links: bytes


def listen(
    netlink: RouteSocket, indices: Sequence[int], root_handle: int, *, routes: bool, links: bool = False
) -> Said:
    """Ask the kernel about the namespace of a socket: of these interfaces, which have shapers of ours with this handle,
    the qdisc at the root, the class and the queue below it; all addresses, and the routes that were stated, and the
    interfaces themselves. Raises NetlinkError: it refuses, or there is no such shaper."""
    only = root_handle | shaping.ONLY_CLASS
    asked = [(shaping.ask_root(index), shaping.ask_leaf(index, only)) for index in indices]
    qdiscs = netlink.ask_raw([request for pair in asked for request in pair])
    classes = netlink.ask_raw([shaping.ask_class(index, only, f"interface {index}") for index in indices])
    addresses = netlink.dump_raw(rtnetlink.list_addresses())
    listed = netlink.dump_raw(rtnetlink.list_links()) if links else b""
    netlink.filter()
    stated = netlink.dump_raw(rtnetlink.list_static_routes()) if routes else b""
    return Said(qdiscs, classes, addresses, stated, listed)
