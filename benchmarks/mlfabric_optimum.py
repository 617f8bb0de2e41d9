"""MLfabric's algorithms beside the best schedule: how much later updates are at the server.

    python benchmarks/mlfabric_optimum.py [--cases 100] [--seed 1]     # some minutes

Each case is a batch of two to four updates of 100 or 200 Mbit, none to two aggregators, and a star whose links have
50 or 100 Mbit/s, some of which change after 1 or 2 s. In every third case delays are bounded. The best schedule is that
of section 10.1, an integer linear program that decides order, next hops and rates at once, in slots of half a second.
It drops nothing, so it gets the updates that the algorithms have not dropped. Printed is the ratio of the average times
at which updates are at the server (eq. 17). A ratio below 1 belongs to a schedule that needs shorter slots. Reached if
the mean is at most 1.15. Measured: mean 1.018, worst 1.312, and 83 of 97 are the best.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from dataclasses import dataclass, replace

from analysis.schedule_optimum import Slots, optimum
from topologies.build import build
from topologies.model import Topology
from workloads.kinds.fabric.batch import schedule
from workloads.kinds.fabric.model import Batch, Rates, Schedule, Update
from workloads.kinds.fabric.network import Network

MOST = 1.15
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
    """How one case ended; there is no optimum of nothing."""

    number: int
    schedule: Schedule
    optimum_s: float | None
    took_s: float

    @property
    def ratio(self) -> float:
        """Average time over the least."""
        return self.schedule.way.average_s / self.optimum_s if self.optimum_s else math.nan


def case(seed: int) -> Case:
    """One of the same seed is the same."""
    draw = random.Random(seed)
    workers = draw.sample(range(WORKERS), draw.randint(2, WORKERS))
    topology = build(f"star(hosts={SERVER + 1})", rate_bps=WHOLE_BPS)
    links = [*(2 * host for host in range(SERVER)), *(2 * host + 1 for host in range(WORKERS, SERVER + 1))]
    rates = {link: _steps(draw) for link in links}
    bound = draw.randint(2, 5) if seed % 3 == 0 else None
    updates = tuple(
        Update(number, worker, (draw.choice([100, 100, 200]) * MBIT / 8,), version=10 - draw.randint(0, 3))
        for number, worker in enumerate(workers)
    )
    aggregators = tuple(range(WORKERS, WORKERS + draw.randint(0, AGGREGATORS)))
    return Case(topology, rates, Batch(updates, (SERVER,), aggregators, version=10, delay_bound=bound))


def _steps(draw: random.Random) -> tuple[tuple[float, float], ...]:
    first, second = (draw.choice([50, 100, 100]) * MBIT for _ in range(2))
    return ((0.0, first), (float(draw.choice([1, 2])), second))


def compared(number: int, asked: Case) -> Compared:
    """The same batch by the algorithms and by the program.

    Raises:
        RuntimeError: the program says that what the algorithms have found cannot be.
    """
    found = schedule(asked.batch, Network(asked.topology, asked.rates))
    sent = replace(asked.batch, updates=tuple(one for one in asked.batch.updates if one.id in found.order))
    if not sent.updates:
        return Compared(number, found, None, 0.0)
    begin_s = time.monotonic()
    best = optimum(sent, asked.topology, asked.rates, Slots(SLOT_S, _enough(sent)))
    if best is None:
        raise RuntimeError(f"seed {number}: no schedule in {_enough(sent)} slots, and the algorithms have one")
    return Compared(number, found, best.average_s, time.monotonic() - begin_s)


def _enough(batch: Batch) -> int:
    """Slots in which all updates can go straight to the server, one after another, at half of the rate."""
    return math.ceil(sum(8 * one.sizes_bytes[0] for one in batch.updates) / (WHOLE_BPS / 2) / SLOT_S)


def main() -> int:
    parser = argparse.ArgumentParser(description="MLfabric's algorithms beside the best schedule.")
    parser.add_argument("--cases", type=int, default=100, help="how many; default 100")
    parser.add_argument("--seed", type=int, default=1, help="of the first case; default 1")
    asked = parser.parse_args()
    found = [compared(seed, case(seed)) for seed in range(asked.seed, asked.seed + asked.cases)]
    some = [one for one in found if one.optimum_s is not None]
    ratios = [one.ratio for one in some]
    worst = max(some, key=lambda one: one.ratio)
    mean = sum(ratios) / len(ratios)
    dropped = sum(len(one.schedule.dropped) for one in found)
    finer = sum(ratio < 1 - 1e-6 for ratio in ratios)
    print(f"cases    {len(found)}; {dropped} updates are dropped, in {len(found) - len(some)} cases all of them")
    print(f"optimal  {sum(ratio < 1 + 1e-6 for ratio in ratios)} of {len(some)} cases; {finer} need shorter slots")
    print(f"worst    {worst.ratio:.3f} (seed {worst.number})")
    print(f"mean     {mean:.3f} of at most {MOST}")
    print(f"program  {sum(one.took_s for one in found):.0f} s in all, {max(one.took_s for one in found):.1f} s at most")
    return 0 if mean <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
