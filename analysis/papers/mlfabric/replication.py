"""Cost of a copy of the model: MLfabric's replica, chain replication, and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from testbed.analysis.papers.claim import Experiment, Finding, Row, Runs, Stated
from testbed.analysis.papers.evidence import Values, measure_means
from testbed.analysis.papers.judging import falling, near, near_beyond_1, rising, within
from testbed.analysis.papers.mlfabric.ideals import Asked, play
from testbed.analysis.papers.mlfabric.plan import PLAN, PLANNED
from testbed.analysis.papers.mlfabric.rounds import ABOUT, RING, WORKERS, rounds_s
from testbed.analysis.recorded import Run, Trial
from testbed.workloads.kinds.fabric import ideal
from testbed.workloads.kinds.transfers import Purpose

COPIES = Experiment("mlfabric/replication.yaml", (), ("repeats=3", "workload.iterations=60", "quiet=10 s"))
"""Checkpoints and chain replication."""
REPLICA = Experiment("mlfabric/replica.yaml", ("workload.iterations=6",), PLAN.full)
"""A replica that shares the server's link. :data:`PLAN` has the same without a replica."""
BOUNDS = {"N": 30, "5N": 150, "20N": 600}
"""Bounds by name, in updates; the spec has 30 workers."""
IDEAL = Asked(
    "mlfabric_a(delay_bound=30)",
    "spine_leaf(racks=11,hosts_per_rack=3,spines=1)",
    size_bytes=102_228_128,
    rate_bps=1e10,
    pace_s=0.1,
    rounds=8,
    shared_bps=1e10,
)
"""Trial of the spec on an ideal network, without a bound of the divergence."""
MOST_SAVED = 5.6
BASE_MIN = 20.0
"""6 epochs of a synchronous trial without disturbances (section 7.3)."""
REPLICA_MIN, LOOSE_MIN, CHAIN_TIMES = 16.0, 10.0, 30.0
"""How much longer they take with a replica, by the tightest and the loosest bound, and how many times the former
it is at most with chain replication."""
CHAIN_MOST = 1 + CHAIN_TIMES * REPLICA_MIN / BASE_MIN
TIGHT_TIMES, LOOSE_TIMES = 1 + REPLICA_MIN / BASE_MIN, 1 + LOOSE_MIN / BASE_MIN
REPLICA_TIMES: Mapping[str, Stated] = {
    "replica, N": TIGHT_TIMES,
    "replica, 5N": (LOOSE_TIMES, TIGHT_TIMES),
    "replica, 20N": LOOSE_TIMES,
}
PAPERS_TIMES: Mapping[str, Stated] = {
    **REPLICA_TIMES,
    "checkpoint, N": 1 + 96 / BASE_MIN,
    "checkpoint, 20N": 1 + 6 / BASE_MIN,
    "chain": (1.0, CHAIN_MOST),
    "ring, every iteration": 1 + 76 / BASE_MIN,
    "ring, every 20": 1 + 4 / BASE_MIN,
    "ring, spread": 1 + 7 / BASE_MIN,
}
"""Times of iterations over those without a copy, by arm."""


def replication(runs: Runs) -> Finding:
    """Bytes to the replica, and times of iterations, over those without a copy."""
    copies, replica = runs.get(COPIES.spec), _with_base(runs)
    fewer = [
        Row(
            f"updates in a transfer to the replica, bound {bound}",
            "",
            MOST_SAVED if bound == "20N" else None,
            ideal_replicated(updates),
            measure_means(replica, [f"replica, {bound}"], replicated),
        )
        for bound, updates in BOUNDS.items()
    ]
    times = {}
    for arm, paper in PAPERS_TIMES.items():
        run, base = (replica, PLANNED) if arm in REPLICA_TIMES else (copies, RING if arm.startswith(RING) else "A")
        times[arm] = Row(
            f"iterations with {arm}, over those without",
            "x",
            paper,
            ideal_time(BOUNDS[arm.removeprefix("replica, ")]) if arm in REPLICA_TIMES else None,
            measure_means(run, [base, arm], rounds_s),
        )
    least, most = times["replica, 20N"], times["replica, N"]
    tight, loose = ideal_replicated(BOUNDS["N"]), ideal_replicated(BOUNDS["20N"])
    near_paper = [row for row in times.values() if isinstance(row.paper, float)]
    return Finding(
        (*fewer[::-1], *times.values()),
        (
            rising("a higher bound has more updates in a transfer to the replica", [fewer[0], fewer[-1]]),
            near(f"20N: as many as in the paper, within {ABOUT:.0%}", fewer[-1], ABOUT),
            falling("a higher bound costs less time", [most, least]),
            falling(
                "a tight bound (30 workers) costs less than checkpoints as often (8 workers)",
                [times["checkpoint, N"], most],
            ),
            falling(
                "a loose bound (30 workers) costs more than checkpoints every 20N (8 workers)",
                [least, times["checkpoint, 20N"]],
            ),
            falling("chain replication costs more than a replica", [times["chain"], most]),
            within("chain replication costs at most 30 times as much", times["chain"], high=CHAIN_MOST),
            *(
                near_beyond_1(f"{row.name}: the cost is the paper's, within {ABOUT:.0%}", row, ABOUT)
                for row in near_paper
            ),
        ),
        (
            "The paper gives minutes that 6 epochs take longer, beside about 20 for a synchronous trial. Here these "
            "are times of iterations over those of the same scheme without a copy. For MLfabric-A the paper does not "
            "give the base; its 0.8 and 0.5 are 16 and 10 of 20 minutes.",
            "8,000 iterations in 20 minutes are 0.15 s each. Where nothing is slow, an update passes a NIC of 10 "
            "Gbit/s twice in a ring, which takes 0.16 s, and computing takes 0.1 s. Here neither overlaps the other. "
            "So checkpoints that take the paper's time are a smaller share of an iteration than in the paper.",
            "Chain replication is that of async_ps, which neither schedules nor sums. Its time is over MLfabric-A's, "
            "too.",
            "Theory is the same scheduler on an ideal network, by discrete events. In it a higher bound saves bytes, "
            "as in the paper, but no time. For with the tightest bound a transfer to the replica already has "
            f"{tight:.2g} updates, so that the replica gets {1 / tight:.0%} of the server's bytes. With the loosest "
            f"bound it gets {1 / loose:.0%}, and more cannot be saved.",
            "What the replica saves is told by the updates in a transfer to it: an update and a sum have as many "
            "bytes.",
        ),
    )


def _with_base(runs: Runs) -> Run | None:
    """The run with replicas, and beside it the trials without one: a server that is alone on its machine has a link of
    its own."""
    replica, plan = runs.get(REPLICA.spec), runs.get(PLAN.spec)
    if replica is None or plan is None:
        return replica
    return replace(replica, trials=(*replica.trials, *plan.trials))


@cache
def _played(divergence_updates: int | None) -> ideal.Run:
    if divergence_updates is None:
        return play(replace(IDEAL, topology="star(hosts=32)", shared_bps=None))
    return play(replace(IDEAL, scheme=f"mlfabric_a(delay_bound=30,divergence_updates={divergence_updates})"))


def ideal_replicated(divergence_updates: int) -> float:
    """Compute how many updates a transfer to the replica has on average, on an ideal network."""
    there = [
        moved.planned.members
        for moved in _played(divergence_updates).planner.traffic.moved
        if moved.planned.target == WORKERS + 1
    ]
    return float(np.mean([len(members) for members in there]))


def ideal_time(divergence_updates: int) -> float:
    """Compute how many times as long a trial takes with a replica, on an ideal network."""
    return _played(divergence_updates).jct_s / _played(None).jct_s


def replicated(trial: Trial) -> Values:
    """Return how many updates each transfer to the replica has: on average, how many times fewer bytes it gets than if
    nothing was summed."""
    table = trial.transfers
    if table is None:
        return np.array([])
    there = table[(table["purpose"] == Purpose.REPLICA) & (table["to"] >= trial.world)]
    return there["members"].to_numpy(float)
