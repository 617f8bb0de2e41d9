"""A patch panel as a namespace: whatever one port receives leaves by the port that a circuit joins it with.

A redirect each way for each circuit, and no look at the frames: a panel is a mirror. A port without a circuit is dark:
its frames go up into a network stack that has no address, and are lost there. A circuit moves in two steps, the removal
of two filters and the addition of two others, with the panel's reconfiguration time in between. (48 ports take 0.4 ms
and 0.6 ms. A filter changed in place would take less, but darkness would need an action, gact, that not every kernel
has.)
"""

from __future__ import annotations

from collections.abc import Iterable

from testbed.lab.netns.kernel_interface.netlink import NLM_F_CREATE, NLM_F_EXCL, Request, text
from testbed.lab.netns.kernel_interface.shaping import RTM_NEWQDISC, TCA_KIND, TCMSG
from testbed.lab.netns.kernel_interface.switching import (
    FIRST_PRIORITY_ANY_PROTOCOL,
    INGRESS_HANDLE,
    RTM_GETTFILTER,
    RTM_NEWTFILTER,
    TC_H_INGRESS,
    read_redirect,
    redirect,
)

RTM_DELTFILTER = 45


def receive(index: int, what: str) -> Request:
    """Make interface ``index`` a panel's port, dark until :func:`join`."""
    body = TCMSG.pack(0, index, INGRESS_HANDLE, TC_H_INGRESS, 0) + text(TCA_KIND, "ingress")
    return Request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, body, f"make {what} a panel's port")


def join(index: int, to: int, what: str) -> Request:
    """Let all that interface ``index`` receives leave by interface ``to``."""
    body = TCMSG.pack(0, index, 0, INGRESS_HANDLE, FIRST_PRIORITY_ANY_PROTOCOL) + redirect(0, 0, to)
    return Request(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, body, f"join {what} with another port")


def part(index: int, what: str) -> Request:
    """Make interface ``index`` dark."""
    body = TCMSG.pack(0, index, 0, INGRESS_HANDLE, FIRST_PRIORITY_ANY_PROTOCOL) + text(TCA_KIND, "u32")
    return Request(RTM_DELTFILTER, 0, body, f"make {what} dark")


def list_joined(index: int) -> Request:
    """Ask for the filters of one port."""
    return Request(RTM_GETTFILTER, 0, TCMSG.pack(0, index, 0, INGRESS_HANDLE, 0), "list a panel's port")


def read_joined(bodies: Iterable[bytes]) -> int | None:
    """The interface that a port is joined with, None for a dark one.

    Raises:
        ValueError: its filters are not one that takes everything.
    """
    filters = [found for found in map(read_redirect, bodies) if found is not None]
    if len(filters) > 1 or any(mask != bytes(4) for mask, _, _ in filters):
        raise ValueError(f"{len(filters)} filters that look at frames")
    return filters[0][2] if filters else None
