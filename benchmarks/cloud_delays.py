"""Processor time that delays take where a process delays packets, for clouds of 16 hosts with full uplinks.

    python benchmarks/cloud_delays.py [SECONDS]

Each host sends to one of the next rack as fast as TCP (reno) goes, so all uplinks of racks are full both ways. The
first row is the reference: eight hosts of ten on one switch, whose links of 50 Mbit/s are delayed and full, as in
benchmarks/delay.py. The machine should have nothing else to do.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from itertools import permutations
from pathlib import Path

from testbed.base.columns import columns
from testbed.base.python import module_command
from testbed.lab.base import LinkSettings
from testbed.lab.netns import NetnsLab
from testbed.lab.programs import Program
from testbed.perturb.events import START_SIGNAL
from testbed.topologies.addressing import plan
from testbed.topologies.build import build
from testbed.topologies.cloud import places
from testbed.topologies.model import Topology

MODULE, PORT, SETTLE_S = "testbed.workloads.perturbing.background", 8_000, 3.0
NETWORKS = [("star(hosts=10)", 50_000_000, 1e-3)] + [
    (f"cloud(rows={rows},racks={4 // rows},oversubscription={oversubscription})", 100_000_000, 0.0)
    for rows in (1, 2)
    for oversubscription in (4, 2)
]


def main(seconds: float) -> None:
    rows = []
    for expression, rate_bps, delay_s in NETWORKS:
        topology = build(expression, rate_bps=rate_bps, delay_s=delay_s)
        ring = [list(range(8))] if expression.startswith("star") else _across(topology)
        carried_bps, cores = measure(topology, ring, seconds)
        delayed = sum(link.delay_s > 0 for link in topology.links)
        rows.append(
            (expression, f"{delayed}", f"{carried_bps / 1e6:.0f}", f"{cores:.2f}", f"{1e9 * cores / carried_bps:.2f}")
        )
    heads = ("network", "delayed", "Mbit/s", "cores", "cores a Gbit/s")
    print("links with delay, what they carry in all (both directions), and what delaying that takes\n")
    print(columns(heads, rows, left=1))


def _across(topology: Topology) -> list[list[int]]:
    """Rings over hosts, each with one host of each rack."""
    return [list(hosts) for hosts in zip(*places(topology).groups, strict=True)]


def measure(topology: Topology, rings: list[list[int]], seconds: float) -> tuple[float, float]:
    """Return what delayed links carry (bit/s, the sum of their directions), and the cores that the delay line takes."""
    with NetnsLab() as lab, tempfile.TemporaryDirectory() as folder:
        lab.up(topology, LinkSettings(congestion_control="reno"), permutations(topology.hosts, 2))
        started = []
        for ring in rings:
            for source, sink in zip(ring, [*ring[1:], ring[0]], strict=True):
                where = plan(topology).flow(source, sink)[1], str(PORT), "1"
                for node, words in ((sink, ("sink", *where)), (source, ("source", *where, "0"))):
                    log = str(Path(folder) / f"{words[0]}{node}")
                    started.append(lab.start(node, Program(tuple(module_command(MODULE, *words)), {}, "/"), log))
        while any(Path(folder, f"source{host}").read_bytes() == b"" for ring in rings for host in ring):
            time.sleep(0.05)
        for sending in started[1::2]:
            sending.signal(START_SIGNAL)
        time.sleep(SETTLE_S)
        begun_s, line_s, carried = time.monotonic(), lab.impaired_by()["cpu_s"], _delayed_bytes(lab, topology)
        time.sleep(seconds)
        took_s = time.monotonic() - begun_s
        cores = (lab.impaired_by()["cpu_s"] - line_s) / took_s
        carried_bps = 8 * (_delayed_bytes(lab, topology) - carried) / took_s
        for helper in [*started[1::2], *started[::2]]:
            helper.signal(signal.SIGTERM)
        return carried_bps, cores


def _delayed_bytes(lab: NetnsLab, topology: Topology) -> int:
    return sum(one.bytes for one in lab.counters() if topology.links[one.directed_link // 2].delay_s)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 6.0)
