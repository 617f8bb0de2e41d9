"""Proof that no order costs less than one that is there, or a better one, by CP-SAT of OR-tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from testbed.workloads.ranks.costs import Priced

SECONDS = 2.0
"""Budget in CP-SAT's own measure of time, which is about a second and the same on all machines."""
MOST_ENTRIES = 200_000
"""The most entries of tables in a model; a larger one is not tried."""


@dataclass(frozen=True)
class Proof:
    """Result of a search for a cheaper order (for a dearer one, where ``worst``).

    Attributes:
        order: one that is better than the one given; None where none was seen.
        bound: cost below which (above which) there is certainly none.
        proven: whether ``order``, or the one given, is the best one.
    """

    order: tuple[int, ...] | None
    bound: float | None
    proven: bool


UNKNOWN = Proof(None, None, False)


def is_installed() -> bool:
    return find_spec("ortools") is not None


def improve(priced: Priced, order: Sequence[int], unit: float, *, worst: bool = False, seed: int = 0) -> Proof:
    """Look for an order that is better than ``order``, all costs being rounded to whole ``unit``.

    Repeats find the same: it has one worker, a seed, and a budget that is no time of a clock.
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
    """A ring is a circuit through all hosts."""
    hosts, costs = range(priced.hosts), tables[0]
    arcs = [(a, b, model.new_bool_var("")) for a in hosts for b in hosts if a != b]
    model.add_circuit(arcs)

    def ranks(solver: Any) -> tuple[int, ...]:
        following = {a: b for a, b, taken in arcs if solver.boolean_value(taken)}
        found = [0]
        while len(found) < priced.hosts:
            found.append(following[found[-1]])
        return tuple(found)

    return sum(int(costs[a, b]) * taken for a, b, taken in arcs), ranks


def _elements(model: Any, priced: Priced, tables: Any) -> tuple[Any, Any]:
    """Each rank has a host, and each transfer's cost is an element of a table by its two hosts."""
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


def _largest(model: Any, some: Sequence[Any], tables: Any) -> Any:
    found = model.new_int_var(0, int(tables.max()) * len(tables.T), "")
    model.add_max_equality(found, some)
    return found
