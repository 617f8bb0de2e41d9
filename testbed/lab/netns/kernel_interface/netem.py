"""Options of the kernel's netem, packed, and read back.

All of it in the same batched requests as the shaper above it, and not through pyroute2 or ``tc``: neither pyroute2 0.9
nor the ``tc`` of Debian 12 can say the seed, pyroute2 not the table of a distribution either, and a link's rate is
changed together with its leaf while it is in use. The tests hold these bytes against those that ``tc`` sends.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist

from testbed.lab.base import Impairment
from testbed.lab.netns.kernel_interface.netlink import attribute, attributes

TCA_NETEM_DELAY_DIST, TCA_NETEM_REORDER, TCA_NETEM_RATE = 2, 3, 6
TCA_NETEM_LATENCY64, TCA_NETEM_JITTER64, TCA_NETEM_PRNG_SEED = 10, 11, 14
OPTIONS = struct.Struct("=IIIIII")  # struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter
REORDER = struct.Struct("=II")  # struct tc_netem_reorder: probability, correlation
RATE = struct.Struct("=IiIi")  # struct tc_netem_rate: bytes per second, overheads of packet and cell
WHOLE = 2**32 - 1
"""Number that netem has for a share of 1."""
KEEPS_ORDER = RATE.pack(WHOLE, 0, 0, 0)
"""Rate that keeps packets in order: with a rate, netem lets no packet pass the one before it (``netem_enqueue`` in the
kernel's net/sched/sch_netem.c counts from the time of the last one); at this one, 34 Gbit/s, a full packet takes 0.4
us."""
TABLE_ENTRIES, TABLE_SCALE = 4096, 8192
"""Number of entries of a distribution's table, as many as iproute2's have, and the value that stands for one sigma
(NETEM_DIST_SCALE)."""


@dataclass(frozen=True, slots=True)
class Netem:
    """An impairment as the kernel holds it: times in nanoseconds, shares to a hundred-millionth.

    ``seed`` is None where a kernel before Linux 6.6 draws its own, which is no difference.
    """

    delay_ns: int
    jitter_ns: int
    loss: float
    reorder: float
    seed: int | None = field(compare=False)

    @classmethod
    def of(cls, wanted: Impairment, seed: int) -> Netem:
        """Convert an impairment to what netem should have."""
        times = round(wanted.delay_s * 1e9), round(wanted.jitter_s * 1e9)
        return cls(*times, round(wanted.loss, 8), round(wanted.reorder, 8), seed)


def pack(wanted: Netem, limit: int) -> bytes:
    """Pack the options of a netem with room for ``limit`` packets; each replaces what it had before."""
    gap = 1 if wanted.reorder else 0  # every packet may go ahead, and not only each gap-th
    packed = OPTIONS.pack(0, limit, _share(wanted.loss), gap, 0, 0)
    packed += attribute(TCA_NETEM_LATENCY64, struct.pack("=q", wanted.delay_ns))
    packed += attribute(TCA_NETEM_JITTER64, struct.pack("=q", wanted.jitter_ns))
    packed += attribute(TCA_NETEM_REORDER, REORDER.pack(_share(wanted.reorder), 0))
    packed += attribute(TCA_NETEM_RATE, KEEPS_ORDER)
    if wanted.seed is not None:
        packed += attribute(TCA_NETEM_PRNG_SEED, struct.pack("=Q", wanted.seed))
    return packed + (attribute(TCA_NETEM_DELAY_DIST, normal_table()) if wanted.jitter_ns else b"")


def read(options: bytes) -> tuple[int, Netem]:
    """Unpack options: limit in packets, and what this netem does."""
    found = attributes(options, OPTIONS.size)
    _, limit, loss, gap, _, _ = OPTIONS.unpack_from(options)
    reorder = REORDER.unpack(found[TCA_NETEM_REORDER])[0] if gap else 0
    delay_ns, jitter_ns = (
        int.from_bytes(found.get(kind, b""), "little") for kind in (TCA_NETEM_LATENCY64, TCA_NETEM_JITTER64)
    )
    seed = int.from_bytes(found[TCA_NETEM_PRNG_SEED], "little") if TCA_NETEM_PRNG_SEED in found else None
    return limit, Netem(delay_ns, jitter_ns, round(loss / WHOLE, 8), round(reorder / WHOLE, 8), seed)


@cache
def normal_table() -> bytes:
    """Make the table of the normal distribution as netem draws from it: 16-bit numbers, each as likely as any other."""
    normal = NormalDist(sigma=TABLE_SCALE)
    values = [round(normal.inv_cdf((i + 0.5) / TABLE_ENTRIES)) for i in range(TABLE_ENTRIES)]
    return struct.pack(f"={TABLE_ENTRIES}h", *values)


def _share(share: float) -> int:
    return round(share * WHOLE)
