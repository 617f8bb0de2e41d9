"""Markdown from Python: tables, and what their cells hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from testbed.base.docstrings import prose

WIDEST = 90
"""Characters of a line of code that a window of 1280 px shows; ``tests/docs/test_rendered.py`` measures it."""
_COMMENTED = re.compile(r"(?P<code>.*?\S) +(?P<comment># .*)")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def one_line(docstring: str | None) -> str:
    """The same for a cell of a table."""
    return " ".join(prose(docstring).split())


def comments_in_sight(commands: str) -> str:
    """Lines of shell commands; a comment that would end beyond :data:`WIDEST` is above its command instead."""
    return "\n".join(map(_in_sight, commands.splitlines()))


def _in_sight(line: str) -> str:
    parts = _COMMENTED.fullmatch(line)
    return line if len(line) <= WIDEST or not parts else f"{parts['comment']}\n{parts['code']}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
