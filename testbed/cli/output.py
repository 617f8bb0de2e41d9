"""What commands print: JSON for programs, aligned columns for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_json(value: object) -> None:
    """Print ``value`` for a program."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


COLOURS = {"VALID": "[green]VALID[/]", "INVALID": "[red]INVALID[/]", "FAILED": "[bold red]FAILED[/]"}


def rich_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Rows as a table for a terminal; verdicts in colour. Where it is narrow, the first column and the verdict wrap."""
    from rich.markup import escape
    from rich.table import Table

    from testbed.comparison.closing_table import NARROWEST_NAME, NARROWEST_VERDICT, VERDICT  # here, for it loads numpy

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for i, name in enumerate(header):
        widest = max([len(name), *(len(row[i]) for row in rows)])
        if i == 0:
            table.add_column(name, min_width=min(widest, NARROWEST_NAME), overflow="fold")
        elif name == VERDICT:
            table.add_column(name, justify="right", min_width=min(widest, NARROWEST_VERDICT))
        else:
            table.add_column(name, justify="right", min_width=widest)
    for row in rows:
        table.add_row(*(COLOURS.get(cell, escape(cell)) for cell in row))
    return table
