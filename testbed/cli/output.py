"""What commands print: JSON for programs, aligned columns for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_json(value: object) -> None:
    """Print ``value`` for a program."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def rich_table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """The same as a table for a terminal; VALID and INVALID in colour."""
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i < left else "right", no_wrap=i >= left)
    colour = {"VALID": "[green]VALID[/]", "INVALID": "[red]INVALID[/]", "FAILED": "[bold red]FAILED[/]"}
    for row in rows:
        table.add_row(*(colour.get(cell, cell.replace("[", r"\[")) for cell in row))
    return table
