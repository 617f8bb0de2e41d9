"""Markdown from Python: tables, and what their cells hold."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from testbed.base.docstrings import prose

WIDEST = 90
"""Characters of a line of code that a window of 1280 px shows; ``tests/docs/test_rendered.py`` measures it."""
_GOES_ON = " \\"
_COMMENTED = re.compile(r"(?P<code>.*?\S) +(?P<comment># .*)")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def one_line(docstring: str | None) -> str:
    """The same for a cell of a table."""
    return " ".join(prose(docstring).split())


def in_sight(commands: str) -> str:
    """Lines of shell commands. Where one would end beyond :data:`WIDEST`, a comment is above its command, and a command
    goes on in a line below."""
    return "\n".join(map(_in_sight, commands.splitlines()))


def _in_sight(line: str) -> str:
    if len(line) <= WIDEST:
        return line
    parts = _COMMENTED.fullmatch(line)
    return f"{parts['comment']}\n{_broken(parts['code'])}" if parts else _broken(line)


def _broken(command: str) -> str:
    lines = textwrap.wrap(
        command, WIDEST - len(_GOES_ON), subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return f"{_GOES_ON}\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
