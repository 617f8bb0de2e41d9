"""How near annealed orders of ranks come to proven optima, and how long 64 hosts take.

python benchmarks/rank_orders.py

Rings of 16 hosts at random places, 20 seeds: the annealed cost over the proven optimum's (asked: 1.02 at most). Then
every cost model on 64 hosts of 16 racks with noise: seconds in all (asked: 10 at most), and how far the solver came.
"""

from __future__ import annotations

import sys

import numpy as np

from testbed.analysis.theory.probed_cloud import Cloud
from testbed.topologies.call import parse
from testbed.workloads.ranks.annealing import anneal
from testbed.workloads.ranks.costs import COSTS, Distances, Priced, build
from testbed.workloads.ranks.exact import improve
from testbed.workloads.ranks.orders import MICROSECOND, find

SEEDS, MOST_RATIO, MOST_S = 20, 1.02, 10.0


def main() -> int:
    missed = [*_rings(), *_times()]
    for text in missed:
        print(f"missed: {text}")
    return 1 if missed else 0


def _rings() -> list[str]:
    ratios, proven = [], 0
    for seed in range(SEEDS):
        at = np.random.default_rng(seed).random((16, 2))
        apart_s = 1e-3 * np.hypot(*(at[:, None] - at).transpose(2, 0, 1))
        priced = Priced(build(parse("ring", ""), 16), Distances(apart_s))
        annealed = anneal(16, priced.values, seed)
        proof = improve(priced, annealed, MICROSECOND, seed=seed)
        proven += proof.proven
        ratios.append(priced.value(annealed) / priced.value(proof.order or annealed))
    told = f"rings of 16, {SEEDS} seeds: {proven} proven; annealed / optimum {np.median(ratios):.4f} in the median"
    print(f"{told}, {max(ratios):.4f} at most (asked: {MOST_RATIO})")
    missed = [] if max(ratios) <= MOST_RATIO else [f"{max(ratios):.4f} > {MOST_RATIO}"]
    return missed if proven == SEEDS else [*missed, f"{proven} of {SEEDS} proven"]


def _times() -> list[str]:
    missed = []
    apart_s = 1e-3 * Cloud(4, 4, 4, 0.1).probed_ms(0)
    for name in COSTS:
        found = find(Priced(build(parse(name, ""), 64), Distances.larger(apart_s)), 0)
        print(
            f"64 hosts, {name}: {found.took_s:.1f} s (asked: {MOST_S:g}), {1e3 * found.cost:.2f} ms, by number "
            f"{1e3 * found.by_number:.2f}, worst {1e3 * found.worst:.2f}; {found.note or 'proven'}"
        )
        missed += [f"{name} took {found.took_s:.1f} s"] if found.took_s > MOST_S else []
    return missed


if __name__ == "__main__":
    sys.exit(main())
