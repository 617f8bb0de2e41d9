"""PHub thesis, chapter 4 (Parameter Link): what collectives cost on racks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from testbed.analysis.papers.table import Table
from testbed.topologies.build import build as build_topology
from testbed.workloads.sync.cost import cost
from testbed.workloads.sync.schemes import build

GRID = ((2, 2), (4, 2), (8, 2), (2, 4), (4, 4), (8, 4), (16, 16))
"""N nodes in each of C racks; powers of two, so that every row of the table means something."""


@dataclass(frozen=True)
class Costs:
    """Costs of one all-reduce of S bytes at each node: rounds, bytes on the wire / S, bytes between racks / S."""

    rounds: float
    wire: float
    between: float


@dataclass(frozen=True)
class Row:
    """A row of Table 4.1: our scheme for it (``{c}`` stands for C), what the table says, and why the two differ."""

    name: str
    scheme: str
    paper: Callable[[int, int], Costs]
    why: str = ""


ROWS = (
    Row("PS (fully sharded)", "ps", lambda n, c: Costs(2, 2 * (n * c - 1), 2 * n * (c - 1))),
    Row(
        "Halving doubling",
        "halving_doubling",
        lambda n, c: Costs(2 * math.log2(n * c), 2 * n * c, 2 * c * (n - 1) / n),
        "(NC-1)S pass the wire each way; the table rounds up to 2NCS. 2(C-1)S pass between racks, which is the table's "
        "2C(N-1)/N S for N = C only; for N < C the table has less than the 2(C-1)S without which no rack could have "
        "the sum.",
    ),
    Row(
        "Ring-Chunked",
        "ring",
        lambda n, c: Costs(2 * n * c - 1, 2 * n * c - 1, 2 * c - 1),
        "NC-1 steps each way are 2(NC-1), with S on the wire in each; the table has one more. Each of the C hops "
        "between racks carries 2(NC-1)/(NC) S: (2C - 2/N)S together, where the table has (2C - 1)S.",
    ),
    Row(
        "Tree (fan out = C)",
        "tree(fanout={c})",
        lambda n, c: Costs(2 * (math.log(n, c) + 1), 2 * c * (c * n - 1) / (c - 1), 2 * c * (n - 1) / (c - 1)),
        "The table's tree has inner nodes beside the NC leaves. Here an inner node is at the first of its leaves, "
        "which sends itself nothing: (C-1)/C of the table's wire bytes. The table counts every level but the lowest as "
        "between racks, which is right for N = C; where N is a power of C, racks are whole subtrees here and 2(C-1)S "
        "pass between them. Rounds are whole, 2 ceil(log_C NC).",
    ),
    Row("2-level hierarchical", "two_level", lambda n, c: Costs(4, 2 * (n * c - 1), 2 * (c - 1))),
)


def exact(scheme: str, n: int, c: int) -> Costs:
    """Compute the costs that the scheme's forest says, on C racks of N nodes."""
    net = build_topology(f"spine_leaf(racks={c},hosts_per_rack={n},spines=1)", rate_bps=10**9)
    found = cost(build(scheme, net, []), net, 1.0)
    return Costs(found.rounds, found.wire_bytes, found.cross_rack_bytes)


def table_4_1() -> Table:
    """Every row over a grid of N and C, exact and the table's."""
    rows, notes = [], []
    for row in ROWS:
        differs = False
        for n, c in GRID:
            ours, paper = exact(row.scheme.format(c=c), n, c), row.paper(n, c)
            texts = [text for pair in zip(_texts(ours), _texts(paper), strict=True) for text in pair]
            same = _texts(ours) == _texts(paper)
            differs = differs or not same
            rows.append((row.name, str(n), str(c), *texts, "" if same else "differs"))
        if differs:
            notes.append(f"{row.name}: {row.why}")
    return Table(
        "PHub thesis, Table 4.1: N nodes in each of C racks; rounds, bytes on the wire / S, bytes between racks / S",
        ("", "N", "C", "rounds", "table", "wire", "table", "between", "table", ""),
        tuple(rows),
        tuple(notes),
    )


def _texts(costs: Costs) -> list[str]:
    return [f"{value:.2f}".rstrip("0").rstrip(".") for value in (costs.rounds, costs.wire, costs.between)]


TABLES = {"plink.table4.1": table_4_1}
