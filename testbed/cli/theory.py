"""``testbed theory``: what papers claim beside what forests and topologies say, without running anything."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.output import AsJson, print_json, show, table

if TYPE_CHECKING:
    from testbed.analysis.papers.claim import Table

Claim = Annotated[
    str | None,
    typer.Argument(
        metavar="PAPER[.CLAIM]", help="A paper or a claim, such as rina or plink.table4.1; default: list all claims."
    ),
]


def theory(claim: Claim = None, as_json: AsJson = False) -> None:
    """Compute what papers claim, beside their own figures.

    Without an argument, it lists the claims.
    """
    from testbed.api.theory import claims
    from testbed.api.theory import tables as computed

    if claim is None and not as_json:
        show(table(("claim", "what"), list(claims().items()), left=2))
        return
    tables = computed(claim)
    if as_json:
        print_json({name: asdict(each) for name, each in tables.items()})
    else:
        show("\n\n".join(_text(name, each) for name, each in tables.items()))


def _text(name: str, of: Table) -> str:
    notes = ["", *of.notes] if of.notes else []
    return "\n".join([f"{name}: {of.title}", "", table(of.header, of.rows, of.left), *notes])
