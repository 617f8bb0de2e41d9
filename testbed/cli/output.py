"""Output of commands: JSON for programs, text and tables for people, and rows with tabs for a pipe."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from testbed.base.columns import fitted, tabbed, wrapped

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
COLOURS = {
    "green": ("VALID", "better"),
    "yellow": ("UNWATCHED", "SIMULATED"),
    "red": ("INVALID", "worse"),
    "bold red": ("FAILED",),
}
"""Colours of words that a verdict may be."""


def print_json(value: object) -> None:
    """Print ``value`` for a program."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def width() -> int:
    """Number of characters in a line of the terminal, or what COLUMNS says."""
    return shutil.get_terminal_size().columns


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1, spare: Sequence[str] = ()) -> str:
    """Lay out rows as standard output wants them: fitted into a terminal, if need be without the columns named in
    ``spare``, else separated by tabs, with nothing left out."""
    if sys.stdout.isatty():
        return fitted(header, rows, left, spare, width=width())
    return tabbed(header, rows, left)


def show(*lines: str) -> None:
    """Print lines. On a terminal those that are too long for it go on below, and verdicts have colours."""
    text = "\n".join(lines)
    if not sys.stdout.isatty():
        print(text, flush=True)
        return
    from rich.console import Console
    from rich.text import Text

    told = Text(wrapped(text, width()))
    for colour, words in COLOURS.items():
        told.highlight_regex(rf"\b({'|'.join(words)})\b", colour)
    Console().print(told, soft_wrap=True)


def teller(as_json: bool) -> Callable[[str], None]:
    """Make a function that tells a person how a command gets on: on standard error if standard output is for a
    program."""
    return partial(print, file=sys.stderr, flush=True) if as_json else show


def wrote(what: str, path: str | os.PathLike[str]) -> None:
    """Say which file a command wrote; its path is in one piece, to be copied."""
    print(f"{what}: {Path(path)}")
