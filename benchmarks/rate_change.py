"""How long after its moment a change of rate in mid-run takes effect: the record's time and what a receiver sees.

    python benchmarks/rate_change.py        # half a minute

A flow crosses a link of ``star(hosts=2)`` whose rate a schedule moves up and down; the receiver notes when which bytes
came. A change has taken effect at the end of the first ``WINDOW_S`` in which the rate is nearer to the new than to the
old one, so no time below ``WINDOW_S`` can be seen. Reached when both times are at most 20 ms for every change.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import time
from itertools import pairwise, permutations
from pathlib import Path

import ending
import numpy as np

from testbed.control.conductor import Conductor, Record
from testbed.control.feed import Feed
from testbed.control.registry import Beside
from testbed.lab.base import LinkSettings
from testbed.lab.limits import HTB
from testbed.lab.netns import NetnsLab
from testbed.lab.programs import Completed
from testbed.perturb.kinds.base import Context, Perturbation
from testbed.perturb.kinds.links import Step
from testbed.perturb.schedule import schedule
from testbed.topologies.build import build

RATES_MBPS = (100, 20, 100, 50, 10) * 5
EVERY_S = 0.7
WINDOW_S = 0.005
TARGET_S = 0.02
RECEIVE = """
import socket, sys, time, json
with socket.create_server((sys.argv[1], 7000)) as server:
    server.settimeout(20)
    sock = server.accept()[0]
    seen, room = [], bytearray(1 << 16)
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        count = sock.recv_into(room)
        seen.append((time.monotonic(), count))
print(json.dumps(seen))
"""
SEND = """
import socket, sys, time
end = time.monotonic() + float(sys.argv[2])
while True:
    try:
        sock = socket.create_connection((sys.argv[1], 7000))
        break
    except OSError:
        time.sleep(0.02)
try:
    while time.monotonic() < end:
        sock.sendall(bytes(1 << 14))
except OSError:
    pass
"""


def changes() -> list[Perturbation]:
    """One step after the other."""
    return [
        Step(kind="rate", at=f"{(i + 1) * EVERY_S} s", rate=f"{rate} Mbit/s", links=["h0"], direction="out")  # type: ignore[arg-type,call-arg]
        for i, rate in enumerate(RATES_MBPS[1:])
    ]


def measure() -> tuple[list[Record], list[tuple[float, int]]]:
    """What was done when, and what came when."""
    topology = build("star(hosts=2)", rate_bps=RATES_MBPS[0] * 10**6)
    duration_s = EVERY_S * (len(RATES_MBPS) + 1)
    with NetnsLab() as lab, tempfile.TemporaryDirectory() as folder:
        lab.up(topology, LinkSettings(), permutations(topology.hosts, 2))
        address = lab.execute(1, ["hostname", "-I"], 5).stdout.split()[0]
        done: dict[int, Completed] = {}

        def run(node: int, code: str) -> None:
            command = [sys.executable, "-c", code, address, str(duration_s)]
            done[node] = lab.execute(node, command, duration_s + 30)

        threads = [threading.Thread(target=run, args=one) for one in ((1, RECEIVE), (0, SEND))]
        for thread in threads:
            thread.start()
        time.sleep(1.0)  # Python has started, and TCP fills the link
        feed, planned = Feed({}), schedule(changes(), Context(topology, 1.0, LinkSettings(), HTB, 1, {}))
        with Conductor(planned, lab, Path(folder)) as conductor, Beside(feed, [conductor]):
            feed.begin()
            time.sleep(EVERY_S * len(RATES_MBPS))
        for thread in threads:
            thread.join()
    for node, what in ((0, "the sender"), (1, "the receiver")):
        ending.with_command(what, done[node])
    return conductor.records, json.loads(done[1].stdout)


def effect_s(seen: list[tuple[float, int]], planned_s: float, before: float, after: float) -> float:
    """Seconds from the moment planned until the rate is nearer to ``after`` (Mbit/s) than to ``before``."""
    at = np.array([time_s for time_s, _ in seen])
    total = np.cumsum([count for _, count in seen])
    for late_s in np.arange(0, EVERY_S / 2, 0.0005):
        begin, end = np.interp([planned_s + late_s, planned_s + late_s + WINDOW_S], at, total)
        rate = (end - begin) * 8 / WINDOW_S / 1e6 * 1514 / 1448
        if abs(rate - after) < abs(rate - before):
            return float(late_s) + WINDOW_S
    return float("inf")


def main() -> int:
    """Print both times; 0 when the target is reached."""
    records, seen = measure()
    acknowledged = [(record.done_s or float("inf")) - (record.planned_s or 0) for record in records]
    effects = [
        effect_s(seen, record.planned_s or 0, *rates)
        for record, rates in zip(records, pairwise(RATES_MBPS), strict=True)
    ]
    for name, times in (("the kernel has it", acknowledged), ("the receiver sees it", effects)):
        print(
            f"{name:21} median {statistics.median(times) * 1e3:5.1f} ms, worst {max(times) * 1e3:5.1f} ms "
            f"of {len(times)} changes (target {TARGET_S * 1e3:g} ms or less)"
        )
    reached = max(*acknowledged, *effects) <= TARGET_S
    print("reached" if reached else "NOT REACHED")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
