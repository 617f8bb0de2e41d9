"""Our halving-doubling and Gloo's bcube, as our engine runs them, against the least that the links allow.

    python benchmarks/halving_doubling.py        # 25 MB over 200 Mbit/s, two, four and eight hosts; three minutes

See ``side_by_side.py`` for what is measured. (At 1 Gbit/s on eight hosts, Gloo's own halving-doubling is known to take
1.7 times the ideal.)
"""

from __future__ import annotations

import statistics
import sys

from side_by_side import bound_s, measure, milliseconds, rate

SCHEMES = ("halving_doubling", "bcube(base=2)", "bcube(base=4)")
HOSTS = (2, 4, 8)
SIZE_BYTES = 25e6
TARGET = 1.05
ROUNDS = 7


def main() -> int:
    reached = True
    for hosts in HOSTS:
        times = measure("shaped", hosts, SIZE_BYTES, SCHEMES, ROUNDS)
        for scheme in SCHEMES:
            bound = bound_s(scheme, hosts, SIZE_BYTES)
            ratio = statistics.median(times[scheme]) / bound
            reached = reached and ratio <= TARGET
            print(
                f"{rate('shaped')} N={hosts} {SIZE_BYTES / 1e6:.1f} MB   {scheme:16} "
                f"{milliseconds(times[scheme]):>9}   "
                f"bound {bound * 1e3:.1f} ms   ratio {ratio:.3f} (target {TARGET:.2f} or less)",
                flush=True,
            )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
