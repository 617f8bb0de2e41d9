"""Machines that never were: what a ladder would have found on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from testbed.capacity.cache import Known
from testbed.capacity.load import Load
from testbed.capacity.model import Step, fitted, units

PRICES = (0.07, 0.03, 0.016, 0.012)
"""Cores for a Gbit/s sent, one on links, a thousand chunks a second, a process: as two cores were found to have."""
LIMIT = 2.6
NETWORKS = {"ring of 9": (9, 2.0, 64), "BML": (9, 2.0, 16), "ring of 4": (4, 2.0, 128), "fat-tree": (16, 3.5, 32)}
"""Processes, links that a byte passes, and KiB of a chunk."""


def load(gbps: float, processes: int = 9, hops: float = 2.0, chunk_kib: float = 64, **changes: float) -> Load:
    """Of processes that send so much together, which passes so many links."""
    sent_bytes_s = gbps * 1e9 / 8
    found = {
        "sent_bytes_s": sent_bytes_s,
        "link_bytes_s": hops * sent_bytes_s,
        "packets_s": hops * sent_bytes_s / 1448,
        "chunks_s": sent_bytes_s / (1024 * chunk_kib),
        "processes": processes,
        "links": processes,
        "rate_bps": round(1e9 * gbps / processes),
        "in_all_bps": 1e9 * gbps * hops / 2,
    }
    return Load(**(found | changes))  # type: ignore[arg-type]


def steps(
    prices: Sequence[float] = PRICES, limit: float = LIMIT, cores: int = 2, noise: float = 0.0, seed: int = 1
) -> list[Step]:
    """What a ladder finds on a machine with these prices and this limit."""
    random, found = np.random.default_rng(seed), []
    for name, (processes, hops, chunk_kib) in NETWORKS.items():
        for gbps in 0.5 * 1.5 ** np.arange(16):
            one = load(float(gbps), processes, hops, chunk_kib)
            need = float(units(one) @ np.array(prices)) * random.normal(1, noise)
            held = need <= limit
            found.append(Step(name, one, held, 1.01 if held else 1.2, max(0.0, 1 - need / cores)))
            if not held:
                break
    return found


def known(**of: float) -> Known:
    """A machine that was measured."""
    return Known(fitted(steps(**of), int(of.get("cores", 2))), "2026-11-22")  # type: ignore[arg-type]
