"""Our ring against Gloo's ring (torch.distributed), in the same processes of the same place, turn by turn.

    python benchmarks/ring_vs_gloo.py                             # every place and size; about eight minutes
    python benchmarks/ring_vs_gloo.py --place shaped --hosts 8

See ``side_by_side.py`` for the places and for what is measured. Shaped links have 200 Mbit/s.
"""

from __future__ import annotations

import argparse
import statistics
import sys

from side_by_side import bound_s, measure, milliseconds, rate

SIZES_BYTES = {2: [25e6], 4: [25e6], 8: [25e6], 9: [12.5e6, 25e6]}
TARGET = 1.0
ROUNDS = {"loopback": 41, "unshaped": 41, "shaped": 15}


def compare(place: str, hosts: int, size_bytes: float) -> bool:
    """Measure and print a row; whether the target was reached."""
    times = measure(place, hosts, size_bytes, ["ring", "gloo"], ROUNDS[place])
    ratio = statistics.median(times["ring"]) / statistics.median(times["gloo"])
    print(
        f"{rate(place):10} N={hosts} {size_bytes / 1e6:5.1f} MB   ours {milliseconds(times['ring']):>9}   "
        f"gloo {milliseconds(times['gloo']):>9}   ratio {ratio:.3f} (target {TARGET:.2f} or less)"
        + (f"   bound {bound_s('ring', hosts, size_bytes) * 1e3:.1f} ms" if place == "shaped" else ""),
        flush=True,
    )
    return ratio <= TARGET


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--place", choices=list(ROUNDS), action="append")
    parser.add_argument("--hosts", type=int, choices=list(SIZES_BYTES), action="append")
    asked = parser.parse_args()
    results = [
        compare(place, hosts, size)
        for place in asked.place or ROUNDS
        for hosts in asked.hosts or SIZES_BYTES
        for size in SIZES_BYTES[hosts]
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
