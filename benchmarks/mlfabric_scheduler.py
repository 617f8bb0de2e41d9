"""How long MLfabric's scheduler takes for a batch, beside the paper's times (section 7.4).

    python benchmarks/mlfabric_scheduler.py [--repeats 5] [--updates 10,100,500,1000]

Batches are those of analysis/theory/scheduler_batches.py. To reach: the paper's times, with replication; the goal is a
tenth of them. `testbed reproduce mlfabric mlf.sched` decides the same with fewer batches.

Then come 100 updates whose parts go to two servers, and a batch of 30 updates while 600 that are at the server wait for
the replica, on the network of replica.yaml, where both share a link. In the first row the bound lets them wait, in the
second one it does not.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from dataclasses import replace

from testbed.analysis.theory.scheduler_batches import CHANCES, PAPER_MS, RATE_BPS, VERSION, made, timed_ms
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Rates, Replication, Update

GOAL = 0.1
WORKERS, WAITING = 30, 600
"""Of the batch that is planned while much waits."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="batches of each size and setting")
    parser.add_argument("--updates", default=",".join(map(str, PAPER_MS)), help="sizes of batches")
    asked = parser.parse_args()
    print("updates  replica  median ms  slowest ms  paper ms  goal ms")
    reached = [
        show(int(count), has_replica, asked.repeats)
        for count in asked.updates.split(",")
        for has_replica in (False, True)
    ]
    print("\n100 updates, two servers")
    show(100, False, asked.repeats, servers=2)
    print(f"\n{WORKERS} updates, {WAITING} wait for the replica")
    for most_updates in (None, WAITING // 20):
        took_ms = [timed_ms(*behind(most_updates, random.Random(seed))) for seed in range(asked.repeats)]
        word = "nobody needs them" if most_updates is None else "the next commit needs them"
        print(f"{statistics.median(took_ms):27.2f} {max(took_ms):11.2f}  {word}", flush=True)
    return 0 if all(reached) else 1


def show(count: int, has_replica: bool, repeats: int, servers: int = 1) -> bool:
    took_ms = []
    for seed in range(repeats):
        for chances in CHANCES:
            topology, batch, rates = made(count, chances, random.Random(seed), servers)
            if not has_replica:
                batch = replace(batch, replication=None)
            took_ms.append(timed_ms(topology, batch, rates))
    median_ms, paper_ms = statistics.median(took_ms), PAPER_MS.get(count) if servers == 1 else None
    told = f"{paper_ms:8g} {GOAL * paper_ms:8g}" if paper_ms else ""
    word = "yes" if has_replica else "no"
    judged = (
        ""
        if not paper_ms
        else "  goal reached"
        if median_ms <= GOAL * paper_ms
        else "  reached"
        if median_ms <= paper_ms
        else "  NOT REACHED"
    )
    print(f"{count:7d} {word:>8s} {median_ms:10.2f} {max(took_ms):11.2f}  {told}{judged}", flush=True)
    return paper_ms is None or median_ms <= paper_ms


def behind(most_updates: int | None, chance: random.Random) -> tuple[Topology, Batch, Rates]:
    """A batch with updates behind it, of ResNet-50 like it; the servers' rack has one link of a NIC's rate."""
    topology = build(f"spine_leaf(racks={WORKERS // 3 + 1},hosts_per_rack=3,spines=1)", rate_bps=RATE_BPS)
    *links, last = topology.links
    topology = replace(topology, links=(*links, replace(last, rate_bps=RATE_BPS)))
    ranks, helpers = chance.sample(range(WORKERS), WORKERS), WORKERS // 5
    updates = [
        Update(number, ranks[number % WORKERS], (102_228_128.0,), VERSION, norm=1.0)
        for number in range(WAITING + WORKERS)
    ]
    others = chance.sample(range(WORKERS), 2 * helpers)
    replication = Replication(WORKERS + 1, tuple(others[helpers:]), tuple(updates[:WAITING]), most_updates=most_updates)
    batch = Batch(tuple(updates[WAITING:]), (WORKERS,), tuple(others[:helpers]), VERSION, WORKERS)
    return topology, replace(batch, replication=replication), {}


if __name__ == "__main__":
    sys.exit(main())
