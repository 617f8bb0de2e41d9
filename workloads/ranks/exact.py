"""Search by OR-Tools' CP-SAT for a better order than a given one, or for a proof that there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from testbed.workloads.ranks.costs import Priced

SECONDS = 2.0
"""Budget in CP-SAT's deterministic time, whose unit is about a second and the same on all machines."""
MOST_ENTRIES = 200_000
"""Limit on the entries of tables in a model; a larger model is not tried."""


@dataclass(frozen=True)
class Proof:
    """Result of a search for a cheaper order (for a dearer one, where ``worst``).

    Attributes:
        order: an order that is better than the given one; None if none was seen.
        bound: cost such that no order costs less (more).
        proven: whether ``order``, or else the given one, is the best.
    """

    order: tuple[int, ...] | None
    bound: float | None
    proven: bool


UNKNOWN = Proof(None, None, False)


def is_installed() -> bool:
    return find_spec("ortools") is not None


def improve(priced: Priced, order: Sequence[int], unit: float, *, worst: bool = False, seed: int = 0) -> Proof:
    """Look for an order that is better than ``order``, all costs being rounded to whole ``unit``.

    Repeats give the same result: the solver has one worker, a seed, and a budget that does not depend on a clock.
    """
    if not is_installed() or _entries(priced) > MOST_ENTRIES:
        return UNKNOWN
    from ortools.sat.python import cp_model  # only now: it is an extra, and takes half a second

    model = cp_model.CpModel()
    tables = np.rint(priced.tables / unit).astype(np.int64)
    total, ranks = (_circuit if _is_ring(priced) else _elements)(model, priced, tables)
    sign = -1 if worst else 1
    given = _whole(priced, tables, order)
    model.add(sign * total <= sign * given - 1)
    model.minimize(sign * total)
    solver = cp_model.CpSolver()
    settings = solver.parameters
    settings.num_workers, settings.random_seed, settings.linearization_level = 1, seed, 2
    settings.max_deterministic_time = SECONDS
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Proof(None, given * unit, True)
    bound = sign * solver.best_objective_bound * unit
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Proof(None, bound, False)
    return Proof(ranks(solver), bound, status == cp_model.OPTIMAL)


def _is_ring(priced: Priced) -> bool:
    return priced.cost.groups.shape == (priced.hosts, 1)


def _entries(priced: Priced) -> int:
    return priced.hosts**2 * (1 if _is_ring(priced) else len(priced.cost.pairs))


def _whole(priced: Priced, tables: Any, order: Sequence[int]) -> int:
    """Return the cost of an order in whole units."""
    cost, at = priced.cost, np.array(order)
    each = tables[priced.table_of, at[cost.pairs[:, 0]], at[cost.pairs[:, 1]]]
    grouped = np.append(each, 0)[cost.groups]
    return int(grouped.max(axis=1).sum() if cost.of_rounds else grouped.sum(axis=1).max())


def _circuit(model: Any, priced: Priced, tables: Any) -> tuple[Any, Any]:
    """Model a ring as a circuit through all hosts; return its cost, and a function that reads the order."""
    hosts, costs = range(priced.hosts), tables[0]
    arcs = [(a, b, model.new_bool_var("")) for a in hosts for b in hosts if a != b]
    model.add_circuit(arcs)

    def ranks(solver: Any) -> tuple[int, ...]:
        following = {a: b for a, b, taken in arcs if solver.boolean_value(taken)}
        order = [0]
        while len(order) < priced.hosts:
            order.append(following[order[-1]])
        return tuple(order)

    return sum(int(costs[a, b]) * taken for a, b, taken in arcs), ranks


def _elements(model: Any, priced: Priced, tables: Any) -> tuple[Any, Any]:
    """Model the host of each rank, and each transfer's cost as the element of a table for its two hosts."""
    cost, last = priced.cost, priced.hosts - 1
    hosts = [model.new_int_var(0, last, "") for _ in range(priced.hosts)]
    model.add_all_different(hosts)
    if cost.any_first:
        model.add(hosts[0] == 0)
    each = []
    for (a, b), number in zip(cost.pairs.tolist(), priced.table_of.tolist(), strict=True):
        table = tables[number].ravel().tolist()
        at, price = model.new_int_var(0, len(table) - 1, ""), model.new_int_var(min(table), max(table), "")
        model.add(at == priced.hosts * hosts[a] + hosts[b])
        model.add_element(at, table, price)
        each.append(price)
    groups = [[each[number] for number in group if number >= 0] for group in cost.groups.tolist()]
    if cost.of_rounds:
        total = sum(_largest(model, group, tables) for group in groups)
    else:
        total = _largest(model, [sum(group) for group in groups], tables)
    return total, lambda solver: tuple(solver.value(host) for host in hosts)


def _largest(model: Any, costs: Sequence[Any], tables: Any) -> Any:
    largest = model.new_int_var(0, int(tables.max()) * len(tables.T), "")
    model.add_max_equality(largest, costs)
    return largest
