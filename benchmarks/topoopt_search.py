"""How long TopoOpt's predictions and searches of strategies take, and what is found beside data parallelism.

python benchmarks/topoopt_search.py [MODEL ...]

Times are of one core (CPU time of this process) for 16 servers of degree 6: one prediction, the median of several
strategies on the way of a search, and a search of 2,000 steps with its calls of the finder. Limits are for both rows
of Table 2: DLRMs with 16 tables (``dlrm_shared``) and with 64 (``dlrm_dedicated``). Others are printed beside them.
"""

from __future__ import annotations

import statistics
import sys
import time
from functools import partial
from itertools import islice
from random import Random

from testbed.topologies.topoopt.finder import find
from testbed.workloads.parallel.models import NAMES, operators_of
from testbed.workloads.parallel.network import of_found
from testbed.workloads.parallel.prediction import Machine, predict
from testbed.workloads.parallel.search import Effort, Planner, Searched, Walk, alternate
from testbed.workloads.parallel.strategy import data_parallel, fitting

SERVERS, DEGREE, RATE_BPS = 16, 6, 25 * 10**9
STEPS = 2000
LIMITED = "dlrm_shared", "dlrm_dedicated"
PREDICTION_LIMIT_S, SEARCH_LIMIT_S = 0.010, 20.0
SAMPLES = 40


def main() -> int:
    missed = []
    print(f"{'model':18} {'prediction':>10} {'2,000 steps':>12}   iteration: data, found, twice the same")
    for name in sys.argv[1:] or NAMES:
        finder, network = partial(find, degree=DEGREE), partial(of_found, rate_bps=RATE_BPS)
        planner = Planner(operators_of(name), finder, network, Machine())
        one_s = _prediction_s(planner)
        began = time.process_time()
        found = alternate(planner, SERVERS, Effort(STEPS))
        search_s = time.process_time() - began
        same = _told(alternate(planner, SERVERS, Effort(STEPS))) == _told(found) if name in LIMITED else None
        limits = f" (limits: {PREDICTION_LIMIT_S * 1e3:g} ms, {SEARCH_LIMIT_S:g} s)" if name in LIMITED else ""
        print(
            f"{name:18} {one_s * 1e3:7.2f} ms {search_s:10.1f} s   {_data_s(planner):.4g} s, "
            f"{found.best.prediction.iteration_s:.4g} s, {'-' if same is None else same}{limits}"
        )
        if name in LIMITED and (one_s > PREDICTION_LIMIT_S or search_s > SEARCH_LIMIT_S or not same):
            missed.append(name)
    for name in missed:
        print(f"missed: {name}")
    return 1 if missed else 0


def _prediction_s(planner: Planner) -> float:
    """Of strategies that a walk passes; routes and forests of new groups are part of it."""
    start = planner.plan(fitting(planner.model, SERVERS, planner.machine.memory_bytes, place_tables=True))
    walk = Walk(start.strategy, planner.cost(start.network), Random(0))
    times = []
    for _ in islice(iter(walk.step, None), SAMPLES):
        began = time.process_time()
        predict(planner.model, walk.now, start.network, planner.machine)
        times.append(time.process_time() - began)
    return statistics.median(times)


def _data_s(planner: Planner) -> float:
    """Infinite where the model does not fit."""
    return planner.plan(data_parallel(planner.model, SERVERS)).prediction.iteration_s


def _told(found: Searched) -> tuple[object, ...]:
    return found.best.strategy, found.best.found.topology, found.costs, found.rounds


if __name__ == "__main__":
    sys.exit(main())
