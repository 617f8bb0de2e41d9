"""How long TopoOpt's finder takes, and what its networks are like, beside the figures that they should have.

python benchmarks/topoopt_finder.py

Times are of one core (CPU time of this process, the median of several): DLRM with 16 tables on so many servers, once
with all ports for AllReduce rings, and once with a tenth of its AllReduce bytes, so that most ports get matchings.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace

import numpy as np

from testbed.topologies.topoopt.demand import Demand, Group, dlrm
from testbed.topologies.topoopt.finder import figures, find
from testbed.topologies.topoopt.rings import both_ways, fewest
from testbed.topologies.topoopt.selection import Select, select

LIMITS_S = {16: 0.05, 128: 1.0, 432: 5.0}
DEGREES = (4, 8)
TABLES = 16
REPETITIONS = 3
SELECTS: tuple[Select, ...] = ("geometric", "mp")


def main() -> int:
    missed = [*_times(), *_networks()]
    for text in missed:
        print(f"missed: {text}")
    return 1 if missed else 0


def _times() -> list[str]:
    missed = []
    print(f"{'servers':>7} {'degree':>6} {'select':10} {'AllReduce':10} {'rings':>5}   time, limit")
    for servers, limit_s in LIMITS_S.items():
        for degree in DEGREES:
            for how in SELECTS:
                for name, job in _jobs(servers).items():
                    seconds = statistics.median(_seconds(job, degree, how) for _ in range(REPETITIONS))
                    rings = len(find(job, degree, how).rings)
                    told = f"{servers:7} {degree:6} {how:10} {name:10} {rings:5}   {seconds:.3f} s, {limit_s:g} s"
                    print(told)
                    missed += [told] if seconds > limit_s else []
    return missed


def _jobs(servers: int) -> dict[str, Demand]:
    whole = dlrm(servers, [table * servers // TABLES for table in range(TABLES)])
    (group,) = whole.groups
    return {"all": whole, "a tenth": replace(whole, groups=(Group(group.members, group.transfer_bytes // 10),))}


def _seconds(job: Demand, degree: int, how: Select) -> float:
    began = time.process_time()
    find(job, degree, how)
    return time.process_time() - began


def _networks() -> list[str]:
    """What was found beside what should be found."""
    example = figures(find(dlrm(), 6))
    checks = {
        "DLRM of section 2.2, d = 6: share of AllReduce": (round(example["allreduce_share"], 3), 0.945),
        "DLRM of section 2.2, d = 6: hops of MP, weighted": (round(example["mp_hops"]["mean"], 3), 1.733),
        "DLRM of section 2.2, d = 6: bandwidth tax": (round(example["bandwidth_tax"], 3), 1.041),
        "128 servers, d = 4: strides, mean hops, diameter": (_coins(128, 2, "geometric"), ([1, 11], 5.48, 9)),
        "432 servers, d = 8: geometric": (_coins(432, 4, "geometric"), ([1, 5, 19, 95], 4.19, 7)),
        "432 servers, d = 8: even picks": (_coins(432, 4, "mp"), ([1, 55, 109, 163], 13.61, 27)),
    }
    print()
    for name, (found, wanted) in checks.items():
        print(f"{name:50} {found}, should be {wanted}")
    return [name for name, (found, wanted) in checks.items() if found != wanted]


def _coins(servers: int, rings: int, how: Select) -> tuple[list[int], float, int]:
    strides = select(how, range(servers), rings, np.zeros((servers, servers), dtype=np.int64))
    hops = fewest(servers, both_ways(servers, strides))
    return strides, round(sum(hops) / (servers - 1), 2), max(hops)


if __name__ == "__main__":
    sys.exit(main())
