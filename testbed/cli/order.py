"""``testbed order``: the order of hosts in which a collective costs least, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.output import AsJson, print_json, show, table


def order(
    costs: Annotated[
        Path,
        typer.Argument(
            metavar="COSTS.csv",
            help="What a transfer from the host of each row to that of each column costs, in any unit; names of hosts "
            "are in the first row and column.",
        ),
    ],
    cost: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="Collective: ring, halving_doubling, double_binary_tree, bcube(base=4) or lightgbm.",
        ),
    ] = "ring",
    worst: Annotated[bool, typer.Option("--worst", help="Find the order that costs most; default: least.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find the order of ranks in which a collective costs least.

    It prints the hosts by rank, rank 0 first, and compares the order with that of the file. Source: PLink Collectives.
    """
    from testbed.api.order import order as found_for

    made = found_for(costs, cost, worst=worst)
    if as_json:
        print_json(made.facts)
        return
    facts = made.facts
    rows = [
        ("order", ", ".join(made.order)),
        ("cost", f"{facts['cost']:g}, {facts['note'] or 'proven'}"),
        ("in the file's order", f"{facts['by_number']:g}"),
        ("best found", f"{facts['best']:g}"),
        ("worst found", f"{facts['worst']:g}"),
    ]
    if facts["bound"] is not None:
        rows.append(("bound", f"{facts['bound']:g}"))
    if "trees_way" in facts:
        rows.append(("longest way of the scheme's trees", f"{facts['trees_way']:g}"))
    show(table(("", made.cost), rows, left=2))
