"""Our best scheme against Open MPI's allreduce, in the same processes of the same place, turn by turn.

    python benchmarks/vs_openmpi.py                             # every place and size; about eight minutes
    python benchmarks/vs_openmpi.py --place shaped --hosts 8

Open MPI chooses its algorithm by itself (``openmpi``) and, in runs of their own, is told to take its ring. Ours is the
fastest of ``ring`` and ``halving_doubling``, in chunks of 128 KiB (a workload's default up to 200 Mbit/s) and of
512 KiB, which on links that are as fast as memory cost less. See ``side_by_side.py`` for what is measured. Shaped links
have 200 Mbit/s.
"""

from __future__ import annotations

import argparse
import sys

from side_by_side import compare

OURS = ("ring", "halving_doubling", "ring@524288", "halving_doubling@524288")
THEIRS = ("openmpi", "openmpi(algorithm=ring)")
TARGETS = {2: 1.0, 4: 0.8, 8: 0.8}
"""Against the algorithm that Open MPI chooses; its ring stands beside it for information."""
SIZE_BYTES = 25e6
ROUNDS = {"unshaped": 31, "shaped": 7}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--place", choices=list(ROUNDS), action="append")
    parser.add_argument("--hosts", type=int, choices=list(TARGETS), action="append")
    asked = parser.parse_args()
    results = [
        compare(place, hosts, SIZE_BYTES, OURS, theirs, ROUNDS[place], TARGETS[hosts] if theirs == "openmpi" else None)
        for place in asked.place or ROUNDS
        for hosts in asked.hosts or TARGETS
        for theirs in THEIRS
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
