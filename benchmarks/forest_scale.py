"""How long the BML forest of BCube(32,2) takes to make and to verify: 1,024 servers, 2,048 classes.

python benchmarks/forest_scale.py
"""

from __future__ import annotations

import statistics
import sys
import time

from topologies.build import build as build_topology
from workloads.sync.schemes import build
from workloads.sync.verify import verify

TOPOLOGY = "bcube(n=32,k=2)"
TARGET_S = 5.0
REPETITIONS = 5


def main() -> int:
    topology = build_topology(TOPOLOGY, rate_bps=10**9)
    seconds: dict[str, list[float]] = {"generate": [], "verify": []}
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        forest = build("bml", topology, [])
        made = time.perf_counter()
        verify(forest, topology)
        seconds["generate"].append(made - began)
        seconds["verify"].append(time.perf_counter() - made)
    total_s = sum(statistics.median(times) for times in seconds.values())
    print(f"bml on {TOPOLOGY}: {len(topology.hosts)} servers, {forest.classes} classes, median of {REPETITIONS}")
    for step, times in seconds.items():
        print(f"  {step:8} {statistics.median(times):6.2f} s")
    print(f"  {'total':8} {total_s:6.2f} s   target {TARGET_S:.2f} s or less")
    return 0 if total_s <= TARGET_S else 1


if __name__ == "__main__":
    sys.exit(main())
