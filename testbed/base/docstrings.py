"""Docstrings as Markdown, for pages and commands that are made from the code."""

from __future__ import annotations

import inspect
import re

_ROLE = re.compile(r":[a-z]+:`~?([^`]*)`")
_SECTION = re.compile(r"^(Args|Raises|Returns|Attributes):$", re.M)


def code(text: object) -> str:
    """Format text as it is typed."""
    return f"`{text}`" if str(text) else ""


def prose(docstring: str | None) -> str:
    """Convert a docstring without its sections about arguments and errors; names of Python's become code."""
    text = inspect.cleandoc(docstring or "")
    found = _SECTION.search(text)
    return plain(text[: found.start()] if found else text).strip()


def plain(text: str) -> str:
    """Convert text of a docstring, with code as Markdown has it."""
    return _ROLE.sub(r"`\1`", text).replace("``", "`")
