"""``testbed theory``: what papers claim beside what forests and topologies say, without running anything."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.base.columns import columns
from testbed.cli.output import AsJson, print_json

if TYPE_CHECKING:
    from analysis.papers.table import Table

Claim = Annotated[str | None, typer.Argument(metavar="[PAPER[.CLAIM]]", help="Such as rina, or plink.table4.1.")]


def theory(claim: Claim = None, as_json: AsJson = False) -> None:
    """Compute what papers claim and put it beside their own figures; without an argument, list the claims."""
    from testbed.api.theory import claims
    from testbed.api.theory import tables as computed

    if claim is None and not as_json:
        print(columns(("claim", "what"), list(claims().items()), left=2))
        return
    tables = computed(claim)
    if as_json:
        print_json({name: asdict(table) for name, table in tables.items()})
    else:
        print("\n\n".join(_text(name, table) for name, table in tables.items()))


def _text(name: str, table: Table) -> str:
    notes = [textwrap.fill(note, 110, subsequent_indent="  ") for note in table.notes]
    return "\n".join([f"{name}: {table.title}", "", columns(table.header, table.rows, table.left), *_apart(notes)])


def _apart(notes: list[str]) -> list[str]:
    return ["", *notes] if notes else []
