"""Our lab against Mininet 2.3: the same BCube(8,2), 64 hosts and 128 links at 200 Mbit/s, up and down.

Usage: ``python benchmarks/lab_vs_mininet.py``

Needs Mininet (Debian's ``mininet`` for mnexec, ``pip install -e .[mininet]`` for the library), ``bridge-utils`` and
``net-tools``. Both labs run in the same private namespaces (user, network, mount, PID), so nothing outside is touched.

*Up* begins with nothing and ends when the library says that the network is there; for ours that includes starting the
sandbox and reading everything back. *Down* ends when the kernel has freed every network namespace (its own count of
them says so: another one can be made under a limit that allows one more than at the start) and no interface but
loopback is left in the surrounding namespace.
"""

from __future__ import annotations

import argparse
import errno
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ending
from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.nodelib import LinuxBridge
from mininet.topo import Topo

from testbed.lab.base import LinkSettings
from testbed.lab.mininet.lab import PROGRAMS
from testbed.lab.netns import NetnsLab
from testbed.lab.netns.kernel_interface import kernel
from testbed.topologies.build import build as build_topology
from testbed.topologies.model import Topology

TOPOLOGY = "bcube(n=8,k=2)"
RATE_BPS = 200_000_000
REPEATS = 3
TARGET_RATIO = 10.0
GONE_TIMEOUT_S = 60.0

LIMIT = Path("/proc/sys/user/max_net_namespaces")
PLENTY = 10_000
PRIVATE = [
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inside", action="store_true", help="already in private namespaces (used by the script)")
    if not parser.parse_args().inside:
        ending.without({**PROGRAMS, "brctl": "bridge-utils"})  # Mininet would end, and its words are hidden
        return subprocess.run([*PRIVATE, sys.executable, __file__, "--inside"], check=False).returncode
    setLogLevel("critical")  # else: a warning about HTB's quantum for each link
    topology = build_topology(TOPOLOGY, rate_bps=RATE_BPS)
    ours, theirs = [], []
    for _ in range(REPEATS):
        ours.append(measure(lambda: start_ours(topology)))
        theirs.append(measure(lambda: start_mininet(topology)))
    return report(ours, theirs)


def measure(start: Callable[[], Callable[[], object]]) -> tuple[float, float]:
    """Seconds to bring a lab up, and to take it down until nothing is left; ``start`` returns what takes it down."""
    before = time.monotonic()
    stop = start()
    up_s = time.monotonic() - before
    before = time.monotonic()
    stop()
    wait_until_gone()
    return up_s, time.monotonic() - before


def start_ours(topology: Topology) -> Callable[[], object]:
    lab = NetnsLab()
    lab.up(topology, LinkSettings(), [])
    return lab.close


def start_mininet(topology: Topology) -> Callable[[], object]:
    net = Mininet(topo=mininet_topology(topology), switch=LinuxBridge, link=TCLink, controller=None)
    net.start()
    stop: Callable[[], object] = net.stop
    return stop


def mininet_topology(topology: Topology) -> Topo:
    """The same graph, with each link's rate in both directions (Mininet's unit is Mbit/s)."""
    topo = Topo()
    for i, node in enumerate(topology.nodes):
        if node.kind == "host":
            topo.addHost(node.name)
        else:
            topo.addSwitch(f"s{i}", dpid=f"{i:x}")
    name = [node.name if node.kind == "host" else f"s{i}" for i, node in enumerate(topology.nodes)]
    for link in topology.links:
        topo.addLink(name[link.a], name[link.b], bw=link.rate_bps / 1e6)
    return topo


def wait_until_gone() -> None:
    """Wait until this user namespace has one network namespace (the one we are in) and that one only loopback."""
    deadline = time.monotonic() + GONE_TIMEOUT_S
    LIMIT.write_text("2")
    try:
        while len(socket.if_nameindex()) > 1 or not can_make_namespace():
            if time.monotonic() > deadline:
                raise SystemExit(f"something is left after {GONE_TIMEOUT_S:g} s: {socket.if_nameindex()}")
            time.sleep(0.001)
    finally:
        LIMIT.write_text(str(PLENTY))


def can_make_namespace() -> bool:
    """Whether the kernel counts fewer network namespaces than the limit; the one made is let go at once."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        kernel.unshare(kernel.CLONE_NEWNET)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    else:
        kernel.setns(home, kernel.CLONE_NEWNET)
        return True
    finally:
        os.close(home)


def report(ours: list[tuple[float, float]], theirs: list[tuple[float, float]]) -> int:
    print(f"{TOPOLOGY}, {RATE_BPS / 1e6:g} Mbit/s links; medians of {REPEATS} interleaved runs, seconds")
    print(f"{'':6}{'testbed':>10}{'Mininet':>10}{'ratio':>8}   target")
    reached = True
    for position, what in enumerate(("up", "down")):
        own = statistics.median(run[position] for run in ours)
        other = statistics.median(run[position] for run in theirs)
        reached &= other / own >= TARGET_RATIO
        print(f"{what:6}{own:10.3f}{other:10.3f}{other / own:8.1f}   {TARGET_RATIO:g} times faster")
    print("reached" if reached else "NOT REACHED")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
