"""How long BCube(32,2) takes to come up: 1,024 servers, 64 switches, 2,048 shaped links, read-back included.

Usage: ``python benchmarks/lab_scale.py``

The time is from nothing (no sandbox) to a network whose every rate, queue, mtu, address, neighbour, route and sysctl
has been read back from the kernel; routes are those that BML needs.
"""

from __future__ import annotations

import statistics
import sys
import time

from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.topologies.build import build as build_topology
from testbed.workloads.sync import flows, schemes

TOPOLOGY = "bcube(n=32,k=2)"
SCHEME = "bml"
RATE_BPS = 200_000_000
REPEATS = 3
TARGET_S = 6.0


def main() -> int:
    topology = build_topology(TOPOLOGY, rate_bps=RATE_BPS)
    pairs = flows.pairs(schemes.build(SCHEME, topology, [10_000_000]))
    ups_s, verifies_s, downs_s = [], [], []
    for _ in range(REPEATS):
        started = time.monotonic()
        lab = NetnsLab()
        lab.up(topology, LinkSettings(), pairs)
        up = time.monotonic()
        lab.verify()
        verified = time.monotonic()
        lab.close()
        ups_s.append(up - started)
        verifies_s.append(verified - up)
        downs_s.append(time.monotonic() - verified)
    seconds = statistics.median(ups_s)
    print(f"{TOPOLOGY}: {topology.host_count:,} hosts, {len(topology.links):,} shaped links; medians of {REPEATS}")
    print(f"  up, read back  {seconds:6.2f} s   target {TARGET_S:g} s or less")
    print(f"  of which reading back {statistics.median(verifies_s):.2f} s; closing {statistics.median(downs_s):.2f} s")
    print("reached" if seconds <= TARGET_S else "NOT REACHED")
    return 0 if seconds <= TARGET_S else 1


if __name__ == "__main__":
    sys.exit(main())
