"""``testbed.order()``: order of hosts in which a collective costs least; nothing runs."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.base.errors import SpecError
from testbed.topologies.build import build as build_topology
from testbed.topologies.call import parse
from testbed.workloads.ranks.costs import Distances, Floats, Priced, build, longest_way
from testbed.workloads.ranks.orders import Found, find

if TYPE_CHECKING:
    import pandas as pd

MOST_HOSTS = 1024
LARGEST_BYTES = 32 << 20
"""Bytes of a file: about 30 a number for so many hosts."""
STEPS = 10**6
"""Steps into which the solver divides the largest cost, if costs are not whole numbers."""


@dataclass(frozen=True)
class RankOrder:
    """Order of hosts for a collective. ``found`` is what the project's own code works with."""

    names: Sequence[str]
    cost: str
    found: Found
    trees_way: float | None
    """Cost, for ``double_binary_tree``, of the longest way up and down the trees of the scheme of that name."""

    @cached_property
    def order(self) -> list[str]:
        """Hosts by rank."""
        return [self.names[host] for host in self.found.order]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Facts of ``testbed order --json``: hosts by rank, its cost, those of other orders, and what is proven."""
        trees = {} if self.trees_way is None else {"trees_way": self.trees_way}
        return {"model": self.cost, **asdict(self.found), "order": self.order, **trees}


def order(costs: str | os.PathLike[str] | pd.DataFrame, cost: str = "ring", *, worst: bool = False) -> RankOrder:
    """Find the order of hosts in which a collective costs least (PHub thesis, section 5.2).

    Args:
        costs: of a transfer from each host to each other one, in any unit: a table with names of hosts as rows and
            columns, or the path of a CSV file of it. The larger direction of a pair counts.
        cost: model of the collective: ``ring``, ``halving_doubling``, ``double_binary_tree``, ``bcube(base=4)`` or
            ``lightgbm``.
        worst: look for the order that costs most.

    Raises:
        SpecError: a cost makes no sense, the table is not square, or the file cannot be read.
    """
    names, table = _read(Path(costs)) if isinstance(costs, str | os.PathLike) else _of_table(costs)
    distances, asked = Distances.larger(table), parse(cost, "ring")
    priced = Priced(build(asked, len(names)), distances)
    unit = 1.0 if (table == np.rint(table)).all() else float(table.max()) / STEPS
    result = find(priced, 100 if worst else 0, unit)
    trees_way = None
    if asked.name == "double_binary_tree":
        from testbed.workloads.sync.schemes import build as build_scheme  # here, for it loads every scheme

        forest = build_scheme(asked.name, build_topology(f"star(hosts={len(names)})", rate_bps=10**9), [])
        trees_way = longest_way(forest, distances, result.order)
    return RankOrder(names, str(asked), result, trees_way)


def _of_table(table: pd.DataFrame) -> tuple[list[str], Floats]:
    rows = [[str(name), *map(str, row)] for name, row in zip(table.index, table.to_numpy().tolist(), strict=True)]
    return _checked([["", *map(str, table.columns)], *rows], "the table")


def _read(path: Path) -> tuple[list[str], Floats]:
    from testbed.spec.yaml import read_text  # here, for it takes a while

    text = read_text(path, LARGEST_BYTES, "give a CSV file of costs; docs/guides/rank-order.md has an example")
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error as error:
        raise SpecError(f"{path.name}: {error}", fix="write numbers between commas") from None
    return _checked([row for row in rows if row], path.name)


def _checked(rows: Sequence[Sequence[str]], where: str) -> tuple[list[str], Floats]:
    """
    Raises:
        SpecError: rows are no square matrix of costs with the names of hosts in the first row and column.
    """
    names = [name.strip() for name in rows[0][1:]] if rows else []
    if len(names) > MOST_HOSTS:
        raise SpecError(f"{where} has {len(names):,} hosts", fix=f"give at most {MOST_HOSTS:,}")
    uneven = next((row for row in rows if len(row) != len(names) + 1), None)
    if len(rows) != len(names) + 1 or uneven is not None or not names:
        told = f"{len(names)} columns of hosts and {max(len(rows) - 1, 0)} rows"
        if uneven is not None and len(rows) == len(names) + 1:
            told = f"the row of {uneven[0].strip()!r} has {len(uneven) - 1} of {len(names)} costs"
        raise SpecError(
            f"{where} is not square: {told}", fix="give a row and a column for each host, with its name in front"
        )
    for column, row in zip(names, rows[1:], strict=True):
        if row[0].strip() != column:
            raise SpecError(
                f"{where} has {row[0].strip()!r} in the first column where the first row has {column!r}",
                fix="name the same hosts in the same order in both",
            )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f"{where} names {twice!r} twice", fix="give each host a name of its own")
    return names, np.array([[_number(row, names, at, where) for at in range(len(names))] for row in rows[1:]])


def _number(row: Sequence[str], names: Sequence[str], at: int, where: str) -> float:
    text = row[at + 1].strip()
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 <= value < float("inf"):
        raise SpecError(
            f"{where}: the cost from {row[0].strip()} to {names[at]} is {text!r}", fix="give a number that is 0 or more"
        )
    return value
