"""Machines that never were: what a ladder would have found on them."""

from __future__ import annotations

import numpy as np

from testbed.capacity.cache import Known
from testbed.capacity.model import Load, Step, fitted, need

LIMIT = 2.6
NETWORKS = {"ring of 9": (9, 2.0, 64), "BML": (9, 2.0, 16), "ring of 4": (4, 2.0, 128), "fat-tree": (16, 3.5, 32)}
"""Processes, links that a byte passes, and KiB of a chunk."""


def load(gbps: float, processes: int = 9, hops: float = 2.0, chunk_kib: float = 64, **changes: float) -> Load:
    """Of processes that send so much together, which passes so many links."""
    sent_bytes_s = gbps * 1e9 / 8
    by_rates = min(0.002 * sent_bytes_s / processes, 65_536 * gbps * hops / 2 / 4)
    found = {
        "sent_bytes_s": sent_bytes_s,
        "link_bytes_s": hops * sent_bytes_s,
        "packets_s": hops * sent_bytes_s / 1448,
        "large_packets_s": hops * sent_bytes_s / min(196_608, max(65_536, by_rates)),
        "packet_bytes_by_rates": by_rates,
        "chunks_s": sent_bytes_s / (1024 * chunk_kib),
        "processes": processes,
        "links": processes,
        "rate_bps": round(1e9 * gbps / processes),
        "in_all_bps": 1e9 * gbps * hops / 2,
    }
    return Load(**(found | changes))  # type: ignore[arg-type]


def steps(limit: float = LIMIT, noise: float = 0.0, seed: int = 1) -> list[Step]:
    """What a ladder finds on a machine with this limit, whose networks stray from it."""
    random, found = np.random.default_rng(seed), []
    for name, (processes, hops, chunk_kib) in NETWORKS.items():
        own_limit = limit * random.normal(1, noise)
        for gbps in 0.5 * 1.3 ** np.arange(24):
            one = load(float(gbps), processes, hops, chunk_kib)
            held = need(one) <= own_limit
            found.append(Step(name, one, held, 1.01 if held else 1.2, max(0.0, 1 - need(one) / 2)))
            if not held:
                break
    return found


def known(limit: float = LIMIT) -> Known:
    """A machine that was measured."""
    return Known(fitted(steps(limit)), "2026-11-22")
