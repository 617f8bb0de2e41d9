"""PHub thesis, chapter 4 (Parameter Link): what collectives cost on racks, and what an embedding makes of probes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from testbed.analysis.papers.claim import Table
from testbed.analysis.theory.probed_cloud import Cloud, points
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


DRAWS = 3
EMBEDDED = (
    ("4 rows of 4 x 4", Cloud(4, 4, 4, 2.0), "5.0, 8.1"),
    ("1 row of 4 x 4", Cloud(1, 4, 4, 2.0), ""),
    ("4 rows of 4 x 4, 20 pairs take 50 ms more", Cloud(4, 4, 4, 0.1, outliers=20), ""),
)
"""Clouds whose probes are embedded, and the gain that the thesis has for alpha 1 and 2 (section 6.2.5)."""


def embedding() -> Table:
    """Accuracy of affinity (PAIA) of simulated probes, as probed and after the embedding."""
    rows = []
    for name, cloud, thesis in EMBEDDED:
        for dimensions in (2, 3):
            raw, first = points(cloud, 1, dimensions, DRAWS)
            _, second = points(cloud, 2, dimensions, DRAWS)
            gains = (f"{first - raw:+.1f}", f"{second - raw:+.1f}")
            rows.append((name, f"{cloud.noise_ms:g} ms", str(dimensions), f"{raw:.1f}", *gains, thesis))
    return Table(
        "PHub thesis, section 6.2.5: PAIA in points, of probes and gained by the embedding with alpha 1 and 2",
        ("", "noise", "dimensions", "probed", "alpha 1", "alpha 2", "thesis gains"),
        tuple(rows),
        (
            f"Means of {DRAWS} draws. Round trips are 0.15 ms in a rack, 2.15 ms in a row and 4.15 ms beyond, and each "
            "pair has exponential noise of its own. The thesis gives neither its noise nor its dimensions; its probes "
            "had 81.3 points.",
            "Four racks in one row are equally far from each other, which takes three dimensions: the embedding can "
            "lose there.",
            "A few probes that take far too long bend the whole embedding. Raw probes are right but for these pairs.",
        ),
    )


TABLES = {"plink.table4.1": table_4_1, "plink.embedding": embedding}
