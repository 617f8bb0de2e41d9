"""Markdown from Python: tables, and docstrings in place of which a page has text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

_ROLE = re.compile(r":[a-z]+:`~?([^`]*)`")
_SECTION = re.compile(r"^(Args|Raises|Returns|Attributes):$", re.M)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def code(text: object) -> str:
    """Text as it is typed."""
    return f"`{text}`" if str(text) else ""


def prose(docstring: str | None) -> str:
    """A docstring without its sections about arguments and errors; names of Python's become code."""
    text = inspect.cleandoc(docstring or "")
    found = _SECTION.search(text)
    return plain(text[: found.start()] if found else text).strip()


def plain(text: str) -> str:
    """Text of a docstring with code as Markdown has it."""
    return _ROLE.sub(r"`\1`", text).replace("``", "`")


def one_line(docstring: str | None) -> str:
    """The same for a cell of a table."""
    return " ".join(prose(docstring).split())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
