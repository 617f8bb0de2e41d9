"""Delays asked for and delays measured, on 8 links at 50 Mbit/s that are all full in both directions.

    python benchmarks/delay.py [SECONDS]

Ten hosts on one switch, every link with the same delay. Eight of them send to the next in a ring, as fast as TCP
(iperf3, reno) goes, so their 8 links are full both ways. The other two exchange small packets, one a millisecond, whose
round trip crosses 4 delayed links that carry nothing else: what a packet waits at a full link's shaper is no error of
its delay. The delay line serves all of them in one process, so the load is felt. The first row, without delay, is the
reference: the same network, machine and load.

To reach: the median round trip within 0.2 ms or 5 %, whichever is larger, of asked; each flow's rate within 3 % of the
goodput at the link's rate.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import dataclass
from itertools import permutations
from statistics import median

import ending

from testbed.base.columns import columns
from testbed.lab.base import LinkSettings
from testbed.lab.measurements import Way
from testbed.lab.netns import NetnsLab
from testbed.topologies.addressing import plan
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads.sync.cost import goodput

DELAYS_S = (0.0, 0.0002, 0.001, 0.005, 0.02)
RATE_BPS = 50_000_000
LOADED = 8
SETTLE_S = 2.0
"""Of each flow, not counted: slow start, and the queue that it fills."""
ROUNDS = 40
"""Times the packets of one calibration, at each look."""


@dataclass
class Found:
    """One delay: round trips on an idle and on a loaded network, the flows' rates, and the delay line's CPU time."""

    idle_s: list[float]
    loaded_s: list[float]
    rates_bps: list[float]
    line_share: float


def main(seconds: float) -> None:
    ending.without({"iperf3": "iperf3"})
    rows = []
    reached = True
    for delay_s in DELAYS_S:
        found = measure(delay_s, seconds)
        asked_s = 4 * delay_s
        allowed_s = max(0.0002, 0.05 * asked_s)
        shares = [rate / (RATE_BPS * goodput(1500)) for rate in found.rates_bps]
        off_s = median(found.loaded_s) - asked_s
        fine = not delay_s or (abs(off_s) <= allowed_s and min(shares) >= 0.97 and max(shares) <= 1.03)
        reached &= fine
        rows.append(
            (
                f"{delay_s * 1e3:g} ms",
                *(f"{value_s * 1e3:.3f}" for value_s in (asked_s, median(found.idle_s), median(found.loaded_s))),
                f"{off_s * 1e3:+.3f}" if delay_s else "",
                f"{allowed_s * 1e3:.2f}" if delay_s else "",
                f"{sorted(found.loaded_s)[int(0.99 * len(found.loaded_s))] * 1e3:.2f}",
                f"{min(shares):.1%}",
                f"{max(shares):.1%}",
                f"{found.line_share:.0%}",
                "reference" if not delay_s else "yes" if fine else "NO",
            )
        )
    heads = ("a link", "asked", "idle", "loaded", "off by", "allowed", "p99", "slowest", "fastest", "line", "reached")
    print("round trips over 4 links in ms (median), rates of 8 flows over goodput, the delay line's share of a core\n")
    print(columns(heads, rows, left=1))
    sys.exit(not reached)


def measure(delay_s: float, seconds: float) -> Found:
    """Build, measure idle, load, measure again."""
    topology = build(f"star(hosts={LOADED + 2})", rate_bps=RATE_BPS, delay_s=delay_s)
    with NetnsLab() as lab:
        lab.up(topology, LinkSettings(congestion_control="reno"), permutations(topology.hosts, 2))
        idle_s = round_trips_s(lab, topology)
        rates: list[float] = [0.0] * LOADED
        flows = [
            threading.Thread(target=flow, args=(lab, topology, host, seconds, rates), daemon=True)
            for host in range(LOADED)
        ]
        for one in flows:
            one.start()
        time.sleep(SETTLE_S)
        before, began_s = lab.impaired_by().get("cpu_s", 0.0), time.monotonic()
        loaded_s: list[float] = []
        while time.monotonic() - began_s < seconds - 1:
            loaded_s += round_trips_s(lab, topology)
        said = lab.impaired_by()
        share = (said.get("cpu_s", 0.0) - before) / (time.monotonic() - began_s)
        for one in flows:
            one.join()
        return Found(idle_s, loaded_s, rates, share)


def round_trips_s(lab: NetnsLab, topology: Topology) -> list[float]:
    """Between the two hosts that carry nothing else; one packet a millisecond."""
    way = Way(LOADED, LOADED + 1, *plan(topology).flow(LOADED, LOADED + 1))
    return [took_s for trips in lab.calibrate([way] * ROUNDS, []).round_trips_s for took_s in trips]


def flow(lab: NetnsLab, topology: Topology, host: int, seconds: float, rates: list[float]) -> None:
    """From a host to the next in the ring; its receiver's rate."""
    following = (host + 1) % LOADED
    address = plan(topology).flow(host, following)[1]
    started = lab.execute(following, ["iperf3", "-s", "-1", "-D", "-B", address], 10)
    assert started.status == 0, started.stderr
    words = ["iperf3", "-c", address, "-t", str(seconds), "-O", str(SETTLE_S), "-J", "--connect-timeout", "5000"]
    while "refused" in (said := json.loads(lab.execute(host, words, seconds + SETTLE_S + 30).stdout)).get("error", ""):
        time.sleep(0.05)  # -D returns before the server listens
    assert "error" not in said, said["error"]
    rates[host] = said["end"]["sum_received"]["bits_per_second"]


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 6.0)
