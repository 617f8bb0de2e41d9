"""Our ring against Gloo's ring (torch.distributed), in the same processes of the same place, turn by turn.

    python benchmarks/ring_vs_gloo.py                             # every place and size; about fifteen minutes
    python benchmarks/ring_vs_gloo.py --place shaped --hosts 8

Ours is the faster of two chunk sizes: 128 KiB, a workload's default up to 200 Mbit/s, and 1 MiB, the most that Gloo's
segments have. See ``side_by_side.py`` for the places and for what is measured. Shaped links have 200 Mbit/s.
"""

from __future__ import annotations

import argparse
import sys

from side_by_side import compare

SIZES_BYTES = {2: [25e6], 4: [25e6], 8: [25e6], 9: [12.5e6, 25e6]}
TARGET = 1.0
OURS, THEIRS = ("ring", "ring@1048576"), "gloo"
ROUNDS = {"loopback": 41, "unshaped": 41, "shaped": 21}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--place", choices=list(ROUNDS), action="append")
    parser.add_argument("--hosts", type=int, choices=list(SIZES_BYTES), action="append")
    asked = parser.parse_args()
    results = [
        compare(place, hosts, size, OURS, THEIRS, ROUNDS[place], TARGET)
        for place in asked.place or ROUNDS
        for hosts in asked.hosts or SIZES_BYTES
        for size in SIZES_BYTES[hosts]
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
