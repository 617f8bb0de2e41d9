"""Best and worst orders of hosts, and orders between: annealed, then proven if possible (PHub thesis, 5.2.3)."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from testbed.base.extras import install
from testbed.workloads.ranks.annealing import anneal
from testbed.workloads.ranks.costs import Priced
from testbed.workloads.ranks.exact import Proof, improve, is_installed

MICROSECOND = 1e-6
"""Unit to which CP-SAT rounds costs that are times (s)."""
TOO_LARGE = "not proven: the solver's budget ended, or there are too many hosts"
Order = tuple[int, ...]
"""Hosts by rank."""


@dataclass(frozen=True)
class Found:
    """An order of hosts, and what is known of others.

    Attributes:
        order: hosts by rank.
        cost: of this order.
        by_number: cost of the order of numbers.
        best, worst: costs of the best and the worst order that were found.
        bound: cost such that no order costs less (more, for the worst order), as the solver rounds costs; None if not
            known.
        proven: whether it is proven that no order costs less (more, for the worst order). For an order between them,
            whether both ends are proven.
        note: reason why that is not proven; empty if it is.
        took_s: seconds.
    """

    order: Order
    cost: float
    by_number: float
    best: float
    worst: float
    bound: float | None
    proven: bool
    note: str
    took_s: float


def by_chance(hosts: int, draw: int) -> Order:
    """Return an order by chance. The same ``draw`` gives the same order of as many hosts."""
    return tuple(np.random.default_rng(draw).permutation(hosts).tolist())


def find(priced: Priced, percentile: float, unit: float = MICROSECOND, seed: int = 0) -> Found:
    """Find the order whose cost is ``percentile`` of the way from the best one's, 0, to the worst one's, 100.

    The thesis takes the "10i-th percentile in the range of costs" (section 6.3.2), which is read as best + i/10
    (worst - best). There need not be an order of that cost: the one with the nearest cost that was seen is taken.

    Args:
        unit: to which CP-SAT rounds costs.
        seed: of annealing and of CP-SAT.
    """
    begun_s = time.monotonic()
    best, of_best = _end(priced, unit, seed, worst=False, prove=percentile < 100)
    worst, of_worst = _end(priced, unit, seed, worst=True, prove=percentile > 0)
    least, most = priced.value(best), priced.value(worst)
    if percentile == 0:
        order, proof = best, of_best
    elif percentile == 100:
        order, proof = worst, of_worst
    else:
        aim = least + percentile / 100 * (most - least)
        order = anneal(priced.hosts, lambda orders: np.abs(priced.with_means(orders) - aim) * [[1], [0]], seed)
        proof = Proof(None, None, of_best.proven and of_worst.proven)
    return Found(
        order=order,
        cost=priced.value(order),
        by_number=priced.value(range(priced.hosts)),
        best=least,
        worst=most,
        bound=proof.bound,
        proven=proof.proven,
        note="" if proof.proven else _why(),
        took_s=time.monotonic() - begun_s,
    )


def _end(priced: Priced, unit: float, seed: int, *, worst: bool, prove: bool) -> tuple[Order, Proof]:
    """Return the best order, or the worst, and its proof if ``prove`` is set."""
    sign = -1 if worst else 1
    annealed = anneal(priced.hosts, lambda orders: sign * priced.with_means(orders), seed)
    order = min(tuple(range(priced.hosts)), annealed, key=lambda order: sign * priced.value(order))
    if not prove:
        return order, Proof(None, None, False)
    proof = improve(priced, order, unit, worst=worst, seed=seed)
    return proof.order or order, proof


def _why() -> str:
    return TOO_LARGE if is_installed() else f"not proven: {install('collectives')}"
