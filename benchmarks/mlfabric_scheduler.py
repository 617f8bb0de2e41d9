"""How long MLfabric's scheduler takes for a batch, beside the paper's times (section 7.4).

    python benchmarks/mlfabric_scheduler.py [--repeats 5] [--updates 10,100,500,1000]

Batches as section 7 describes them, around one switch, with NICs of 10 Gbit/s: a worker for each update, but 30 at
least; rates of a NIC's direction of 1 to 10 Gbit/s, with the chances of N2 and N3 in turn; updates of 10 to 100 MB that
all wait when the batch is scheduled, with deadlines that are uniform in 1 to twice their number; an aggregator for five
workers, at hosts of workers, and as many others for the replica. Paths are known from an earlier batch, as they are in
a scheduler that runs. To reach: the paper's times, with replication; the goal is a tenth of them.

Then come 100 updates whose parts go to two servers, and a batch of 30 updates while 600 that are at the server wait for
the replica, on the network of replica.yaml, where both share a link. In the first row the bound lets them wait, in the
second one it does not.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from dataclasses import replace

from topologies.build import build
from topologies.model import Topology
from workloads.kinds.fabric.scheduling.batch import schedule
from workloads.kinds.fabric.scheduling.model import Batch, Rates, Replication, Update
from workloads.kinds.fabric.scheduling.network import Network

PAPER_MS = {10: 5.0, 100: 30.0, 500: 440.0, 1000: 1460.0}
GOAL = 0.1
RATE_BPS = 10**10
SHARES = (0.1, 0.25, 0.33, 0.5, 1.0)
CHANCES = ((0.0, 0.1, 0.1, 0.1, 0.7), (0.5, 0.0, 0.0, 0.0, 0.5))  # N2 and N3 of section 7
VERSION = 10_000
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


def timed_ms(topology: Topology, batch: Batch, rates: Rates) -> float:
    """Of the second time: the first one asks the topology for paths."""
    known = Network(topology, rates)
    schedule(batch, known.copy())
    network = known.copy()
    began_s = time.process_time()
    schedule(batch, network)
    return 1000 * (time.process_time() - began_s)


def made(count: int, chances: tuple[float, ...], chance: random.Random, servers: int) -> tuple[Topology, Batch, Rates]:
    workers = max(30, count)
    topology = build(f"star(hosts={workers + servers + 1})", rate_bps=RATE_BPS)
    rates = {
        link: [(0.0, RATE_BPS * share)]
        for link, share in zip(range(2 * workers), chance.choices(SHARES, chances, k=2 * workers), strict=True)
    }
    ranks = chance.sample(range(workers), workers)
    helpers = workers // 5
    updates = tuple(
        Update(
            number,
            ranks[number],
            (chance.uniform(10e6, 100e6) / servers,) * servers,
            version=VERSION - 2 * count + chance.randint(1, 2 * count),
            norm=chance.uniform(0.5, 1.5),
        )
        for number in range(count)
    )
    others = chance.sample(range(workers), 2 * helpers)
    serving = tuple(range(workers, workers + servers))
    replication = Replication(workers + servers, tuple(others[helpers:]), most_updates=count)
    return (
        topology,
        Batch(updates, serving, tuple(others[:helpers]), VERSION, 2 * count, replication=replication),
        rates,
    )


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
