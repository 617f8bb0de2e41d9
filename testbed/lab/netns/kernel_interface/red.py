"""A queue that marks: the kernel's RED as DCTCP has it configured, packed and read back.

RED marks by the mean length of the queue over time, with a probability that rises between two lengths. DCTCP's authors
make both lengths the same and look at the length of this moment (Alizadeh et al. 2010, section 3.1). So a packet that
meets a queue of that length or more is marked, and no other one. Packets of connections without ECN wait as in a FIFO
(``TC_RED_NODROP``, Linux 5.7): RED would drop them, and with them acknowledgements and the bursts that measure links.
"""

from __future__ import annotations

import struct

from testbed.lab.netns.kernel_interface.netlink import attribute, attributes

TCA_RED_PARMS, TCA_RED_STAB, TCA_RED_MAX_P, TCA_RED_FLAGS = 1, 2, 3, 4
PARAMETERS = struct.Struct("=IIIBBBB")  # struct tc_red_qopt: limit, qth_min, qth_max, Wlog, Plog, Scell_log, flags
BITFIELD = struct.Struct("=II")  # struct nla_bitfield32: value, selector
ECN, HARDDROP, ADAPTATIVE, NODROP = 1, 2, 4, 8
EVERY_FLAG = ECN | HARDDROP | ADAPTATIVE | NODROP
MARKED = 12
"""Offset, in struct tc_red_xstats (its own statistics), of the number of packets that RED has marked."""
FORGETS = bytes([31] * 256)
"""Table by which each idle time divides the mean length (RED_STAB_SIZE powers of two): whatever it was, it is 0."""


def pack(mark_at_bytes: int, limit_bytes: int) -> bytes:
    """Pack the options of a RED that marks from ``mark_at_bytes`` on, and drops beyond ``limit_bytes``."""
    weight_log = cell_log = probability_log = 0  # the mean is the length of this moment
    packed = PARAMETERS.pack(
        limit_bytes, mark_at_bytes, mark_at_bytes, weight_log, probability_log, cell_log, 0
    )  # flags are told as a bit field, or in here, but not both
    packed = attribute(TCA_RED_PARMS, packed) + attribute(TCA_RED_STAB, FORGETS)
    packed += attribute(TCA_RED_MAX_P, struct.pack("=I", 0))
    return packed + attribute(TCA_RED_FLAGS, BITFIELD.pack(ECN | NODROP, EVERY_FLAG))


def read(options: bytes) -> tuple[int, int | None]:
    """Unpack options: limit in bytes, and the length from which this RED marks; None where it does anything else."""
    found = attributes(options, 0)
    limit, at_least, at_most, weight_log, *_ = PARAMETERS.unpack(found[TCA_RED_PARMS])
    flags, _ = BITFIELD.unpack(found.get(TCA_RED_FLAGS, bytes(BITFIELD.size)))
    marks = at_least == at_most and weight_log == 0 and flags == ECN | NODROP
    return limit, at_least if marks else None
