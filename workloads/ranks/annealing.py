"""Orders of low cost by simulated annealing (PHub thesis, section 5.2.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import factorial

import numpy as np

from testbed.workloads.ranks.costs import Floats, Ints

GUIDES = np.array([0.0, 3.0, 10.0])
"""Weight of the guide in each start. Many orders have the same dearest transfers, and so the same cost: a search by
cost alone has no direction there (benchmarks/rank_orders.py has both)."""
STARTS = len(GUIDES)
STEPS_A_HOST, MOST_STEPS, STEPS_AN_ORDER = 4000, 4_000_000, 20
"""Steps of each start: ``STEPS_A_HOST`` for each host, at most ``MOST_STEPS`` over the number of hosts, and at most
``STEPS_AN_ORDER`` for each order that there is."""
COLDEST = 1e-3
"""The last temperature over the first one, which is the spread of random orders' costs."""
LONGEST = 8
"""The most ranks that a step shuffles."""
_BLOCK = 1024
_SAMPLED = 64
"""Random orders whose costs tell the first temperature."""

Values = Callable[[Ints], Floats]
"""Function of orders, int[k, n], to float64[2, k]: the numbers to be made small, and a guide, which is small where few
steps lead to a smaller number."""


def steps(hosts: int) -> int:
    """Return the budget of steps of each start."""
    return min(STEPS_A_HOST * hosts, MOST_STEPS // hosts, STEPS_AN_ORDER * factorial(hosts))


def anneal(hosts: int, values: Values, seed: int) -> tuple[int, ...]:
    """Return the best order seen from :data:`STARTS` random starts.

    A step shuffles a run of ranks, or swaps two. It is taken if it makes the number smaller, to which each start adds
    the guide with a weight of its own. Otherwise it is taken by chance, most likely if the increase is small and the
    search is young. All starts make the same step, each in its own order.
    """
    random = np.random.default_rng(seed)
    sampled = random.permuted(np.tile(np.arange(hosts), (_SAMPLED, 1)), axis=1)
    numbers, guides = values(sampled)
    spread = (numbers + GUIDES[:, None] * guides).std(axis=1)
    orders, numbers = sampled[:STARTS].copy(), numbers[:STARTS]
    now = numbers + GUIDES * guides[:STARTS]
    best, least = orders[numbers.argmin()].copy(), float(numbers.min())
    budget = steps(hosts)
    for number, move in enumerate(_moves(hosts, budget, random)):
        tried = orders[:, move]
        numbers, guides = values(tried)
        if numbers.min() < least:
            best, least = tried[numbers.argmin()].copy(), float(numbers.min())
        then = numbers + GUIDES * guides
        taken = then - now < spread * COLDEST ** (number / budget) * random.standard_exponential(STARTS)
        orders[taken], now[taken] = tried[taken], then[taken]
    return tuple(best.tolist())


def _moves(hosts: int, count: int, random: np.random.Generator) -> Iterator[Ints]:
    """Yield ``count`` steps, each a permutation of ranks."""
    for done in range(0, count, _BLOCK):
        rows = np.arange(min(_BLOCK, count - done))
        keys = np.tile(np.arange(hosts, dtype=np.float64), (len(rows), 1))
        long = random.integers(2, min(LONGEST, hosts) + 1, (len(rows), 1))
        first = random.integers(0, hosts - long + 1)
        inside = (keys >= first) & (keys < first + long)
        shuffled = np.where(inside, first + (long - 1) * random.random(keys.shape), keys)
        a, b = random.integers(0, hosts, (2, len(rows)))
        keys[rows, a], keys[rows, b] = b, a
        swaps = random.random((len(rows), 1)) < 0.5
        yield from np.argsort(np.where(swaps, keys, shuffled), axis=1, kind="stable")
