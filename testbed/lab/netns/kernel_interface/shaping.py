"""A link's rate, queue and delay at one egress: an HTB with one class, and a FIFO as its leaf, or netem for a delay, or
RED where the queue marks packets.

HTB sends a packet whenever its bucket is not overdrawn, whatever the packet's size, so the bucket need not hold a whole
(GSO) packet; it only has to cover the time by which the kernel's timer is late. A deeper one would let a link exceed
its rate for longer. One class per interface suffices: everything that leaves belongs to it.

RED marks by the mean length of the queue over time, with a probability that rises between two lengths. DCTCP's authors
make both lengths the same and look at the length of this moment (Alizadeh et al. 2010, section 3.1). So a packet that
meets a queue of that length or more is marked, and no other one. Packets of connections without ECN wait as in a FIFO
(``TC_RED_NODROP``, Linux 5.7): RED would drop them, and with them acknowledgements and the bursts that measure links.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace

from testbed.lab.base import BUCKET_PACKETS, BUCKET_S, LinkSettings
from testbed.lab.netns.kernel_interface import netem
from testbed.lab.netns.kernel_interface.netlink import (
    NLM_F_CREATE,
    NLM_F_ECHO,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    Request,
    attribute,
    attributes,
    text,
)

TCA_RED_PARMS, TCA_RED_STAB, TCA_RED_MAX_P, TCA_RED_FLAGS = 1, 2, 3, 4
PARAMETERS = struct.Struct("=IIIBBBB")  # struct tc_red_qopt: limit, qth_min, qth_max, Wlog, Plog, Scell_log, flags
BITFIELD = struct.Struct("=II")  # struct nla_bitfield32: value, selector
ECN, HARDDROP, ADAPTATIVE, NODROP = 1, 2, 4, 8
EVERY_FLAG = ECN | HARDDROP | ADAPTATIVE | NODROP
MARKED = 12
"""Offset, in struct tc_red_xstats (its own statistics), of the number of packets that RED has marked."""
FORGETS = bytes([31] * 256)
"""Table by which each idle time divides the mean length (RED_STAB_SIZE powers of two): whatever it was, it is 0."""
QUANTUM_BYTES = 60_000
"""Bytes that a class sends in its turn; with one class this only silences the warning that the default is too large."""
NS_PER_TICK = 64
"""Nanoseconds in the packet scheduler's unit of time (PSCHED_SHIFT = 6 in include/net/pkt_sched.h)."""
ETHERNET_HEADER_BYTES = 14
RTM_NEWQDISC, RTM_GETQDISC = 36, 38
RTM_NEWTCLASS, RTM_GETTCLASS = 40, 42
TC_H_ROOT = 0xFFFFFFFF
ROOT_HANDLE = 0x00010000  # 1:
ONLY_CLASS = 1
FIFO_HANDLE = 0x00100000  # 10:
NETEM_HANDLE = 0x00200000  # 20: another, so that one can take the other's place
RED_HANDLE = 0x00300000  # 30:
TCA_KIND, TCA_OPTIONS, TCA_STATS2 = 1, 2, 7
TCA_HTB_PARMS, TCA_HTB_INIT = 1, 2
TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_APP = 1, 3, 4
TCMSG = struct.Struct("=BxxxiIII")  # struct tcmsg: family, interface, handle, parent, info
RATESPEC = struct.Struct("=BBHhHI")  # struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, rate
HTB_OPT = struct.Struct("=12s12sIIIII")  # struct tc_htb_opt: rate, ceil, buffer, cbuffer, quantum, level, prio
HTB_GLOB = struct.Struct("=IIIII")  # struct tc_htb_glob: version, rate2quantum, default class, debug, direct packets
STATS_BASIC = struct.Struct("=QI")  # struct gnet_stats_basic: bytes, packets
STATS_QUEUE = struct.Struct("=IIIII")  # struct gnet_stats_queue: qlen, backlog, drops, requeues, overlimits
LINKLAYER_ETHERNET = 1
JITTER_ROOM = 4
"""Standard deviations of jitter for which a queue has room; iproute2's table of the normal distribution ends there."""


def pack_red(mark_at_bytes: int, limit_bytes: int) -> bytes:
    """Pack the options of a RED that marks from ``mark_at_bytes`` on, and drops beyond ``limit_bytes``."""
    weight_log = cell_log = probability_log = 0  # the mean is the length of this moment
    packed = PARAMETERS.pack(
        limit_bytes, mark_at_bytes, mark_at_bytes, weight_log, probability_log, cell_log, 0
    )  # flags are told as a bit field, or in here, but not both
    packed = attribute(TCA_RED_PARMS, packed) + attribute(TCA_RED_STAB, FORGETS)
    packed += attribute(TCA_RED_MAX_P, struct.pack("=I", 0))
    return packed + attribute(TCA_RED_FLAGS, BITFIELD.pack(ECN | NODROP, EVERY_FLAG))


def read_red(options: bytes) -> tuple[int, int | None]:
    """Unpack options: limit in bytes, and the length from which this RED marks; None where it does anything else."""
    found = attributes(options, 0)
    limit, at_least, at_most, weight_log, *_ = PARAMETERS.unpack(found[TCA_RED_PARMS])
    flags, _ = BITFIELD.unpack(found.get(TCA_RED_FLAGS, bytes(BITFIELD.size)))
    marks = at_least == at_most and weight_log == 0 and flags == ECN | NODROP
    return limit, at_least if marks else None


@dataclass(frozen=True, slots=True)
class Shape:
    """An egress as the kernel holds it: rate in bytes per second, bucket in scheduler ticks.

    The queue's limit is in bytes; with netem it is in packets, which is all that it can count, and has room for those
    that are delayed, which wait in the same place.
    """

    rate_bytes_per_s: int
    ceil_bytes_per_s: int
    burst_ticks: int
    cburst_ticks: int
    quantum_bytes: int
    queue_limit: int
    netem: netem.Netem | None = None
    root_handle: int = ROOT_HANDLE
    mark_at_bytes: int | None = None
    """The length from which the queue marks packets; netem cannot."""

    @property
    def class_handle(self) -> int:
        """Handle of the one class below the root."""
        return self.root_handle | ONLY_CLASS

    @property
    def burst_bytes(self) -> float:
        """Depth of the bucket in bytes."""
        return self.burst_ticks * NS_PER_TICK * self.rate_bytes_per_s / 1e9

    @property
    def leaf(self) -> str:
        """Kind of the queue below the class."""
        return "netem" if self.netem else "bfifo" if self.mark_at_bytes is None else "red"


def shape(
    rate_bps: int,
    settings: LinkSettings,
    impairment: netem.Netem | None = None,
    root_handle: int = ROOT_HANDLE,
) -> Shape:
    """Shape that an egress of ``rate_bps`` should have; ``impairment`` is None where netem has no part in it, and
    ``root_handle`` is another where somebody else has made the shaper."""
    rate = rate_bps // 8
    frame_bytes = settings.mtu + ETHERNET_HEADER_BYTES
    burst_bytes = max(rate * BUCKET_S, BUCKET_PACKETS * frame_bytes)
    ticks = round(burst_bytes * 1e9 / rate / NS_PER_TICK)
    if impairment is None:
        of_queue = settings.queue_bytes, None, root_handle, settings.mark_at_bytes
        return Shape(rate, rate, ticks, ticks, QUANTUM_BYTES, *of_queue)
    delayed_bytes = rate * (impairment.delay_ns + JITTER_ROOM * impairment.jitter_ns) / 1e9
    limit = max(1, settings.queue_bytes // frame_bytes) + math.ceil(delayed_bytes / frame_bytes)
    return Shape(rate, rate, ticks, ticks, QUANTUM_BYTES, limit, impairment, root_handle)


def blocked(wanted: Shape) -> Shape:
    """Copy an egress with room for no packet: everything is dropped. What waits in the queue still leaves."""
    return replace(wanted, queue_limit=0 if wanted.netem else 1)


def install(index: int, wanted: Shape, link: str) -> list[Request]:
    """Requests that put ``wanted`` at the egress of interface ``index`` (which should be down: it is faster so)."""
    glob = HTB_GLOB.pack(3, 10, ONLY_CLASS, 0, 0)
    root = text(TCA_KIND, "htb") + attribute(TCA_OPTIONS, attribute(TCA_HTB_INIT, glob))
    create = NLM_F_CREATE | NLM_F_EXCL
    return [
        Request(RTM_NEWQDISC, create, TCMSG.pack(0, index, wanted.root_handle, TC_H_ROOT, 0) + root, f"shape {link}"),
        *_class_and_leaf(index, wanted, link, create),
    ]


def change(index: int, wanted: Shape, link: str, before: Shape | None = None) -> list[Request]:
    """Requests that turn an egress made by :func:`install` into ``wanted`` while it is in use; its queue stays.

    RED loses what waits in it whenever it is told its options (``red_change`` in the kernel's net/sched/sch_red.c). It
    is told only if they are not those of ``before``, which is what the egress is now.
    """
    rate, queue = _class_and_leaf(index, wanted, link, 0)
    same = before is not None and _of_queue(before) == _of_queue(wanted)
    return [rate] if wanted.leaf == "red" and same else [rate, queue]


def _of_queue(one: Shape) -> tuple[int, int | None]:
    return one.queue_limit, one.mark_at_bytes


def adopt(index: int, wanted: Shape, link: str) -> list[Request]:
    """Requests that turn an HTB that somebody else made at ``wanted.root_handle``, with that class, into ``wanted``."""
    rate, _ = _class_and_leaf(index, wanted, link, 0)
    return [rate, leaf(index, wanted, link)]


def _class_and_leaf(index: int, wanted: Shape, link: str, flags: int) -> list[Request]:
    rate = RATESPEC.pack(0, LINKLAYER_ETHERNET, 0, 0, 0, wanted.rate_bytes_per_s)
    ceil = RATESPEC.pack(0, LINKLAYER_ETHERNET, 0, 0, 0, wanted.ceil_bytes_per_s)
    options = HTB_OPT.pack(rate, ceil, wanted.burst_ticks, wanted.cburst_ticks, wanted.quantum_bytes, 0, 0)
    only = text(TCA_KIND, "htb") + attribute(TCA_OPTIONS, attribute(TCA_HTB_PARMS, options))
    place = TCMSG.pack(0, index, wanted.class_handle, wanted.root_handle, 0)
    return [
        Request(RTM_NEWTCLASS, flags, place + only, f"rate of {link}"),
        leaf(index, wanted, link, flags),
    ]


def leaf(index: int, wanted: Shape, link: str, flags: int = NLM_F_CREATE | NLM_F_REPLACE) -> Request:
    """A request for the queue below the class; as it stands it takes the place of one of another kind, which loses what
    waits there."""
    limit = wanted.queue_limit
    if wanted.netem is not None:
        handle, options = NETEM_HANDLE, netem.pack(wanted.netem, limit)
    elif wanted.mark_at_bytes is not None:
        handle, options = RED_HANDLE, pack_red(wanted.mark_at_bytes, limit)
    else:
        handle, options = FIFO_HANDLE, struct.pack("=I", limit)
    body = TCMSG.pack(0, index, handle, wanted.class_handle, 0) + text(TCA_KIND, wanted.leaf)
    body += attribute(TCA_OPTIONS, options)
    return Request(RTM_NEWQDISC, flags, body, f"queue of {link}")


def probe(kind: str, index: int) -> Request:
    """A request without the options that htb, netem and red must have: refused as invalid, or as unknown (ENOENT)."""
    body = TCMSG.pack(0, index, ROOT_HANDLE, TC_H_ROOT, 0) + text(TCA_KIND, kind)
    return Request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, body, f"look for {kind}")


def list_qdiscs() -> Request:
    """Ask for every queueing discipline of the namespace."""
    return Request(RTM_GETQDISC, 0, TCMSG.pack(0, 0, 0, 0, 0), "list queues")


def ask_class(index: int, class_handle: int, link: str) -> Request:
    """Ask for a class of interface ``index`` (the kernel answers the asker only if told to echo)."""
    return Request(RTM_GETTCLASS, NLM_F_ECHO, TCMSG.pack(0, index, class_handle, 0, 0), f"read the rate of {link}")


def ask_root(index: int) -> Request:
    """Ask for the queueing discipline at the egress of interface ``index``."""
    return Request(RTM_GETQDISC, NLM_F_ECHO, TCMSG.pack(0, index, 0, TC_H_ROOT, 0), "read a shaper")


def ask_leaf(index: int, class_handle: int) -> Request:
    """Ask for the queue below a class of interface ``index``."""
    return Request(RTM_GETQDISC, NLM_F_ECHO, TCMSG.pack(0, index, 0, class_handle, 0), "read a queue")


@dataclass(frozen=True, slots=True)
class Qdisc:
    """A queueing discipline as listed: where it is, what it is, what it has counted."""

    index: int
    handle: int
    parent: int
    kind: str
    options: bytes
    bytes: int
    packets: int
    drops: int
    waiting_bytes: int = 0


def read_qdisc(body: bytes) -> Qdisc:
    """Parse one item of :func:`list_qdiscs`."""
    _, index, handle, parent, _ = TCMSG.unpack_from(body)
    found = attributes(body, TCMSG.size)
    stats = attributes(found.get(TCA_STATS2, b""), 0)
    sent_bytes, sent_packets = STATS_BASIC.unpack_from(stats[TCA_STATS_BASIC])
    _, waiting, drops, _, _ = STATS_QUEUE.unpack_from(stats[TCA_STATS_QUEUE])
    kind = found[TCA_KIND].rstrip(b"\0").decode()
    return Qdisc(index, handle, parent, kind, found.get(TCA_OPTIONS, b""), sent_bytes, sent_packets, drops, waiting)


def read_default_class(root: Qdisc) -> int:
    """The class of an HTB that everything unclassified belongs to; what belongs to none leaves unshaped."""
    return int(HTB_GLOB.unpack_from(attributes(root.options, 0)[TCA_HTB_INIT])[2])


def read_rate(class_body: bytes) -> int:
    """Bytes per second, of the answer to :func:`ask_class`."""
    options = attributes(attributes(class_body, TCMSG.size)[TCA_OPTIONS], 0)
    return int(RATESPEC.unpack_from(options[TCA_HTB_PARMS])[5])


def read_shape(class_body: bytes, leaf: Qdisc) -> Shape:
    """Parse the answer to :func:`ask_class`, and the class's leaf."""
    options = attributes(attributes(class_body, TCMSG.size)[TCA_OPTIONS], 0)
    rate, ceil, burst, cburst, quantum, _, _ = HTB_OPT.unpack_from(options[TCA_HTB_PARMS])
    rates = RATESPEC.unpack(rate)[5], RATESPEC.unpack(ceil)[5]
    mark_at_bytes = read_red(leaf.options)[1] if leaf.kind == "red" else None
    return Shape(*rates, burst, cburst, quantum, *_read_leaf(leaf), leaf.parent & ~0xFFFF, mark_at_bytes)


def _read_leaf(leaf: Qdisc) -> tuple[int, netem.Netem | None]:
    """Limit, and what netem does if it is one."""
    if leaf.kind == "red":
        return read_red(leaf.options)[0], None
    return netem.read(leaf.options) if leaf.kind == "netem" else (int.from_bytes(leaf.options, "little"), None)
