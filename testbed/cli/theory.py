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
    from analysis.papers import TABLES
    from testbed.base.errors import UsageError
    from topologies.parameters import did_you_mean

    chosen = [name for name in TABLES if claim is None or name == claim or name.startswith(f"{claim}.")]
    if not chosen:
        papers = dict.fromkeys(name.partition(".")[0] for name in TABLES)
        raise UsageError(
            f"there is no claim {claim!r}{did_you_mean(claim or '', [*papers, *TABLES])}",
            fix=f"name a paper ({', '.join(papers)}) or one of {', '.join(TABLES)}",
        )
    if claim is None and not as_json:
        print(columns(("claim", "what"), [(name, (TABLES[name].__doc__ or "").strip()) for name in chosen], left=2))
        return
    tables = {name: TABLES[name]() for name in chosen}
    if as_json:
        print_json({name: asdict(table) for name, table in tables.items()})
    else:
        print("\n\n".join(_text(name, table) for name, table in tables.items()))


def _text(name: str, table: Table) -> str:
    notes = [textwrap.fill(note, 110, subsequent_indent="  ") for note in table.notes]
    return "\n".join([f"{name}: {table.title}", "", columns(table.header, table.rows, table.left), *_apart(notes)])


def _apart(notes: list[str]) -> list[str]:
    return ["", *notes] if notes else []
