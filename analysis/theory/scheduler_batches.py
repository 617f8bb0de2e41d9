"""Time that MLfabric's scheduler takes for a batch as section 7 of the paper describes them.

Around one switch with NICs of 10 Gbit/s there is a worker for each update, but 30 at least. NICs have 1 to 10 Gbit/s in
each direction, with the chances of N2 or N3. Updates of 10 to 100 MB all wait when the batch is scheduled, with
deadlines that are uniform in 1 to twice their number. For five workers there is an aggregator, at hosts of workers, and
as many others for the replica. Paths are known from an earlier batch, as they are in a scheduler that runs.
"""

from __future__ import annotations

import random
import time

from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads.kinds.fabric.scheduling.batch import schedule
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Rates, Replication, Update
from testbed.workloads.kinds.fabric.scheduling.network import Network

PAPER_MS = {10: 5.0, 100: 30.0, 500: 440.0, 1000: 1460.0}
"""Milliseconds that the paper's scheduler takes, by the number of updates (section 7.4)."""
RATE_BPS = 10**10
LEAST_WORKERS = 30
SHARES = (0.1, 0.25, 0.33, 0.5, 1.0)
CHANCES = ((0.0, 0.1, 0.1, 0.1, 0.7), (0.5, 0.0, 0.0, 0.0, 0.5))
"""Probabilities of these shares of a NIC's rate, with N2 and with N3 of section 7."""
VERSION = 10_000


def made(
    count: int, chances: tuple[float, ...], chance: random.Random, servers: int = 1
) -> tuple[Topology, Batch, Rates]:
    """A batch of so many updates; hosts are workers, then the ``servers``, then a replica."""
    workers = max(LEAST_WORKERS, count)
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
    batch = Batch(updates, serving, tuple(others[:helpers]), VERSION, 2 * count, replication=replication)
    return topology, batch, rates


def timed_ms(topology: Topology, batch: Batch, rates: Rates) -> float:
    """CPU time (ms) of the second time: the first one asks the topology for paths."""
    known = Network(topology, rates)
    schedule(batch, known.copy())
    network = known.copy()
    began_s = time.process_time()
    schedule(batch, network)
    return 1000 * (time.process_time() - began_s)


def measured_ms(count: int, repeats: int, most_s: float) -> list[float]:
    """CPU times (ms) of batches of so many updates: ``repeats`` with the rates of N2 and as many with those of N3, in
    turn; fewer, but two, if that takes more CPU time than ``most_s``."""
    found: list[float] = []
    end_s = time.process_time() + most_s
    for seed in range(repeats):
        for chances in CHANCES:
            if len(found) < len(CHANCES) or time.process_time() < end_s:
                found.append(timed_ms(*made(count, chances, random.Random(seed))))
    return found
