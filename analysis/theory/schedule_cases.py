"""Random batches by MLfabric's algorithms and by the best schedule (section 10.1): how much later updates are there.

Each case is a batch of two to four updates of 100 or 200 Mbit, none to two aggregators, and a star whose links have
50 or 100 Mbit/s, some of which change after 1 or 2 s. In every third case delays are bounded. The best schedule is
computed in slots of half a second. It drops nothing, so it gets the updates that the algorithms have not dropped. A
ratio below 1 belongs to a schedule that needs shorter slots.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, replace

from testbed.analysis.theory.schedule_optimum import Slots, optimum
from testbed.topologies.build import build
from testbed.topologies.model import Topology
from testbed.workloads.kinds.fabric.scheduling.batch import schedule
from testbed.workloads.kinds.fabric.scheduling.model import Batch, Rates, Schedule, Update
from testbed.workloads.kinds.fabric.scheduling.network import Network

MOST = 1.15
"""Bound of the mean of the ratios."""
MBIT = 10**6
WHOLE_BPS = 100 * MBIT
SLOT_S = 0.5
WORKERS, AGGREGATORS = 4, 2
SERVER = WORKERS + AGGREGATORS


@dataclass(frozen=True)
class Case:
    """A batch, and what is left of the links."""

    topology: Topology
    rates: Rates
    batch: Batch


@dataclass(frozen=True)
class Compared:
    """Result of one case; there is no optimum of nothing."""

    number: int
    schedule: Schedule
    optimum_s: float | None
    took_s: float

    @property
    def ratio(self) -> float:
        """Average time over the least."""
        return self.schedule.way.average_s / self.optimum_s if self.optimum_s else math.nan


def case(seed: int) -> Case:
    """Draw a random case; the same seed gives the same case."""
    draw = random.Random(seed)
    workers = draw.sample(range(WORKERS), draw.randint(2, WORKERS))
    topology = build(f"star(hosts={SERVER + 1})", rate_bps=WHOLE_BPS)
    links = [*(2 * host for host in range(SERVER)), *(2 * host + 1 for host in range(WORKERS, SERVER + 1))]
    rates = {}
    for link in links:
        first, second = (draw.choice([50, 100, 100]) * MBIT for _ in range(2))
        rates[link] = ((0.0, first), (float(draw.choice([1, 2])), second))
    bound = draw.randint(2, 5) if seed % 3 == 0 else None
    updates = tuple(
        Update(number, worker, (draw.choice([100, 100, 200]) * MBIT / 8,), version=10 - draw.randint(0, 3))
        for number, worker in enumerate(workers)
    )
    aggregators = tuple(range(WORKERS, WORKERS + draw.randint(0, AGGREGATORS)))
    return Case(topology, rates, Batch(updates, (SERVER,), aggregators, version=10, delay_bound=bound))


def compared(number: int, asked: Case) -> Compared:
    """Schedule the same batch by the algorithms and by the program.

    Raises:
        RuntimeError: the program says that what the algorithms have found cannot be.
    """
    found = schedule(asked.batch, Network(asked.topology, asked.rates))
    sent = replace(asked.batch, updates=tuple(update for update in asked.batch.updates if update.id in found.order))
    if not sent.updates:
        return Compared(number, found, None, 0.0)
    begin_s = time.monotonic()
    best = optimum(sent, asked.topology, asked.rates, Slots(SLOT_S, _enough(sent)))
    if best is None:
        raise RuntimeError(f"seed {number}: no schedule in {_enough(sent)} slots, and the algorithms have one")
    return Compared(number, found, best.average_s, time.monotonic() - begin_s)


def _enough(batch: Batch) -> int:
    """Slots in which all updates can go straight to the server, one after another, at half of the rate."""
    return math.ceil(sum(8 * update.sizes_bytes[0] for update in batch.updates) / (WHOLE_BPS / 2) / SLOT_S)
