"""Markdown from Python: tables, and what their cells hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from testbed.base.docstrings import prose


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def one_line(docstring: str | None) -> str:
    """The same for a cell of a table."""
    return " ".join(prose(docstring).split())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
