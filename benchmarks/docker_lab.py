"""How long the lab of containers takes to come up and go down: nine hosts on one switch, read-back included.

Usage: ``python benchmarks/docker_lab.py``, with a Docker daemon. Without: ``python tests/testbed/lab/dockerd.py python
benchmarks/docker_lab.py`` takes one for the time being. The image of this machine is made first.

Up is from nothing (no connection to the daemon) to containers that run, with every rate, queue, mtu, address,
neighbour, route and sysctl read back from the kernel; down is until Docker says that no container is left.
"""

from __future__ import annotations

import statistics
import sys
import time
from itertools import permutations

from testbed.lab.base import LinkSettings
from testbed.lab.docker import image
from testbed.lab.docker.daemon import Daemon
from testbed.lab.docker.lab import DockerLab
from testbed.topologies.build import build as build_topology

TOPOLOGY = "star(hosts=9)"
RATE_BPS = 200_000_000
REPEATS = 5
TARGET_UP_S, TARGET_DOWN_S = 10.0, 5.0


def main() -> int:
    image.make(Daemon())
    topology = build_topology(TOPOLOGY, rate_bps=RATE_BPS)
    ups_s, downs_s = [], []
    for _ in range(REPEATS):
        began = time.monotonic()
        lab = DockerLab()
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        up = time.monotonic()
        lab.close()
        ups_s.append(up - began)
        downs_s.append(time.monotonic() - up)
    print(f"{TOPOLOGY} in containers; medians of {REPEATS}, and the slowest")
    reached = True
    for what, times_s, target_s in (("up, read back", ups_s, TARGET_UP_S), ("down", downs_s, TARGET_DOWN_S)):
        median_s = statistics.median(times_s)
        print(f"  {what:14} {median_s:5.2f} s, {max(times_s):5.2f} s   target {target_s:g} s or less")
        reached &= median_s <= target_s
    print("reached" if reached else "NOT REACHED")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
