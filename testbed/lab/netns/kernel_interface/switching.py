"""Interfaces that pass frames on without a look at addresses of IP: a switch as a table, and a patch panel.

A switch is a table: frames for this MAC address leave through that port. Every address is known beforehand, so nothing
has to be learnt: each port hands what it receives to one shared block of filters, each of which matches a destination
and redirects the frame to a port's egress (and its shaper). A frame for anybody else is dropped: no flooding, no
broadcast. A Linux bridge would do the same job, but the kernel waits for a full RCU grace period (17 ms at 250 Hz) for
each bridge that it frees, one after the other: three quarters of the time that taking down BCube(8,2) took.

A patch panel is a namespace: whatever one port receives leaves by the port that a circuit joins it with. A redirect
each way for each circuit, and no look at the frames: a panel is a mirror. A port without a circuit is dark: its frames
go up into a network stack that has no address, and are lost there. A circuit moves in two steps, the removal of two
filters and the addition of two others, with the panel's reconfiguration time in between. (48 ports take 0.4 ms and 0.6
ms. A filter changed in place would take less, but darkness would need an action, gact, that not every kernel has.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from testbed.lab.netns.kernel_interface.netlink import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    Request,
    attribute,
    attributes,
    text,
    u32,
)
from testbed.lab.netns.kernel_interface.shaping import RTM_NEWQDISC, TCA_KIND, TCA_OPTIONS, TCMSG

RTM_NEWTFILTER, RTM_DELTFILTER, RTM_GETTFILTER = 44, 45, 46
TC_H_INGRESS = 0xFFFFFFF1
INGRESS_HANDLE = 0xFFFF0000
TCA_INGRESS_BLOCK = 13
BLOCK = 1
OF_A_BLOCK = -1  # TCM_IFINDEX_MAGIC_BLOCK: the message is about a shared block, whose number takes the parent's place
FIRST_PRIORITY_ANY_PROTOCOL = 1 << 16 | 0x0300  # priority 1; ETH_P_ALL in network order

TCA_U32_SEL, TCA_U32_ACT = 5, 7
TCA_ACT_KIND, TCA_ACT_OPTIONS = 1, 2
TCA_MIRRED_PARMS = 2
FIRST_ACTION = 1

U32_SEL = struct.Struct("=BBBxHHhhI")  # struct tc_u32_sel: flags, offshift, nkeys, offmask, off, offoff, hoff, hmask
U32_KEY = struct.Struct(">II")  # struct tc_u32_key, first half: mask, value
U32_KEY_OFFSET = struct.Struct("=ii")  # second half: offset, offset mask
MIRRED = struct.Struct("=IIiiiii")  # struct tc_mirred: index, capab, action, refcnt, bindcnt, eaction, ifindex
TC_U32_TERMINAL = 1
TC_ACT_STOLEN = 4
TCA_EGRESS_REDIR = 1
MAC_TAIL_OFFSET = -12
"""Offset of the last four bytes of the destination, from the network header: a 14-byte Ethernet header begins with
it."""


def receive(index: int, what: str) -> Request:
    """Let interface ``index`` hand all it receives to the switch's block of filters."""
    body = TCMSG.pack(0, index, INGRESS_HANDLE, TC_H_INGRESS, 0)
    body += text(TCA_KIND, "ingress") + u32(TCA_INGRESS_BLOCK, BLOCK)
    return Request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, body, f"make {what} a switch's port")


def forward(mac: bytes, index: int, what: str) -> Request:
    """Send frames for ``mac`` (told apart by its last four bytes) out of interface ``index``."""
    body = TCMSG.pack(0, OF_A_BLOCK, 0, BLOCK, FIRST_PRIORITY_ANY_PROTOCOL)
    body += redirect(0xFFFFFFFF, int.from_bytes(mac[2:], "big"), index)
    return Request(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, body, f"tell {what} where {mac.hex(':')} is")


def redirect(mask: int, value: int, index: int) -> bytes:
    """A filter's kind and options: frames whose destination ends in ``value``, under ``mask``, leave by ``index``."""
    key = U32_KEY.pack(mask, value) + U32_KEY_OFFSET.pack(MAC_TAIL_OFFSET, 0)
    selector = U32_SEL.pack(TC_U32_TERMINAL, 0, 1, 0, 0, 0, 0, 0) + key
    mirred = attribute(TCA_MIRRED_PARMS, MIRRED.pack(0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR, index))
    action = attribute(FIRST_ACTION, text(TCA_ACT_KIND, "mirred") + attribute(TCA_ACT_OPTIONS, mirred))
    return text(TCA_KIND, "u32") + attribute(
        TCA_OPTIONS, attribute(TCA_U32_SEL, selector) + attribute(TCA_U32_ACT, action)
    )


def list_table() -> Request:
    """Ask for the filters of the switch's block."""
    return Request(RTM_GETTFILTER, 0, TCMSG.pack(0, OF_A_BLOCK, 0, BLOCK, 0), "list the switch's table")


def read_entry(body: bytes) -> tuple[bytes, int] | None:
    """Last four bytes of the MAC address and interface of one item of the list; None for the table's own head."""
    found = read_redirect(body)
    return found and found[1:]


def read_redirect(body: bytes) -> tuple[bytes, bytes, int] | None:
    """Mask, value and interface of a filter as :func:`redirect` makes it; None for the head of a list of filters."""
    options = attributes(attributes(body, TCMSG.size).get(TCA_OPTIONS, b""), 0)
    if TCA_U32_ACT not in options:
        return None
    key = options[TCA_U32_SEL][U32_SEL.size :]
    action = attributes(attributes(options[TCA_U32_ACT], 0)[FIRST_ACTION], 0)
    mirred = attributes(action[TCA_ACT_OPTIONS], 0)[TCA_MIRRED_PARMS]
    return key[:4], key[4:8], int(MIRRED.unpack(mirred)[6])


def read_block(qdisc_body: bytes) -> tuple[int, int] | None:
    """Interface and the block of filters that it hands what it receives to; None for other queueing disciplines."""
    block = attributes(qdisc_body, TCMSG.size).get(TCA_INGRESS_BLOCK)
    return None if block is None else (int(TCMSG.unpack_from(qdisc_body)[1]), int.from_bytes(block, "little"))


def make_panel_port(index: int, what: str) -> Request:
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
    """The interface that a port is joined with, None for a dark one. Raises ValueError: its filters are not one that
    takes everything."""
    filters = [found for found in map(read_redirect, bodies) if found is not None]
    if len(filters) > 1 or any(mask != bytes(4) for mask, _, _ in filters):
        raise ValueError(f"{len(filters)} filters that look at frames")
    return filters[0][2] if filters else None
