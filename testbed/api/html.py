"""Pieces of HTML for notebooks; every text in them is escaped, for it may come from files of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def paragraph(text: str, *, strong: bool = False) -> str:
    """Make a paragraph of text on lines of its own."""
    return f"<p><b>{escape(text)}</b></p>" if strong else f"<p>{escape(text)}</p>"


def listed(texts: Iterable[str]) -> str:
    """Make a list; nothing where there are no texts."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""


def plain(text: str) -> str:
    """Make text whose columns stay in line."""
    return f"<pre>{escape(text)}</pre>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Make a table: rows under a line of column names."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
