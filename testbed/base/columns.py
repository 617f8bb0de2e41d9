"""Rows of text as a table: aligned, fitted into a terminal's width, or separated by tabs for a program."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Protocol

Rows = Iterable[Sequence[str]]
EMPTY = ("", "-")
"""Contents of a cell without a value."""
GAP = 2
"""Number of spaces between two columns."""
SHORT, PROSE = 12, 24
"""The least characters of a column that wraps; and of one with text after the first one."""
NO_ROOM = "no room for: {}. A wider terminal, a pipe and --json have all columns."
_NAMED = re.compile(r" *\S.*?  +")
"""Pattern of a name, and the spaces after it."""


class Layout(Protocol):
    """A function below that lays out a table."""

    def __call__(self, header: Sequence[str], rows: Rows, left: int = 1, spare: Sequence[str] = ()) -> str:
        """Lay out a table. The first ``left`` columns are text, and the others numbers; those named in ``spare`` may be
        left out."""


def columns(header: Sequence[str], rows: Rows, left: int = 1, spare: Sequence[str] = ()) -> str:  # noqa: ARG001
    """Lay out plain aligned columns, the first ``left`` of them to the left and the others to the right; all are
    there."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(_line(line, widths, left) for line in lines)


def tabbed(header: Sequence[str], rows: Rows, left: int = 1, spare: Sequence[str] = ()) -> str:  # noqa: ARG001
    """Write a line for the header and for each row, its cells separated by tabs; nothing is shortened."""
    return "\n".join("\t".join(" ".join(cell.split()) for cell in line) for line in (header, *rows))


def fitted(header: Sequence[str], rows: Rows, left: int = 1, spare: Sequence[str] = (), *, width: int) -> str:
    """Lay out columns, as :func:`columns`, in ``width`` characters: columns without any value are left out, and the
    widest of the others wrap. Where that leaves too little for words, those named in ``spare`` are left out, the first
    of them first, and named below."""
    lines = [tuple(header), *map(tuple, rows)]
    shown = [i for i in range(len(header)) if i == 0 or not lines[1:] or any(row[i] not in EMPTY for row in lines[1:])]
    hidden: list[str] = []
    for name in (name for name in spare if name in [header[i] for i in shown]):
        if _fits(_least(lines, shown, left), width, GAP):
            break
        hidden.append(name)
        shown.remove(header.index(name))
    gap = GAP if _fits([_longest_word(lines, i) for i in shown], width, GAP) else 1
    widths = _widths(lines, shown, left, width, gap)
    text = "\n".join(
        _line(parts, widths, sum(i < left for i in shown), gap)
        for line in lines
        for parts in zip_longest(*(_wrapped_cell(line[i], widths[k]) for k, i in enumerate(shown)), fillvalue="")
    )
    return f"{text}\n{wrapped(NO_ROOM.format(', '.join(hidden)), width)}" if hidden else text


def wrapped(text: str, width: int) -> str:
    """Wrap text: each line that is longer than ``width`` is continued on others: below its second part, if two spaces
    set that apart from a name, else further in than it begins. Words are never cut."""
    return "\n".join(_continued(line, width) if len(line) > width else line for line in text.split("\n"))


def _continued(line: str, width: int) -> str:
    begin = line[: len(line) - len(line.lstrip())]
    named = _NAMED.match(line)
    inside = named.end() if named and named.end() <= width // 2 else len(begin) + 2
    first = line[: named.end()] if named and inside == named.end() else begin
    return textwrap.fill(
        line[len(first) :].strip(),
        width,
        initial_indent=first,
        subsequent_indent=" " * inside,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _least(lines: Sequence[Sequence[str]], shown: Sequence[int], left: int) -> list[int]:
    """Width down to which each column can be read: words are whole, and so are numbers with their units."""
    return [min(_widest(lines, i), max(_longest_word(lines, i), PROSE if 0 < i < left else SHORT)) for i in shown]


def _widths(lines: Sequence[Sequence[str]], shown: Sequence[int], left: int, width: int, gap: int) -> list[int]:
    """Choose the width of each column, such that all fit: the widest is made narrower, down to where words would be
    cut, and only then beyond."""
    widths = [_widest(lines, i) for i in shown]
    for least in (_least(lines, shown, left), [_longest_word(lines, i) for i in shown], [1] * len(shown)):
        while not _fits(widths, width, gap) and (can := [k for k, one in enumerate(widths) if one > least[k]]):
            widths[max(can, key=widths.__getitem__)] -= 1
    return widths


def _fits(widths: Sequence[int], width: int, gap: int) -> bool:
    return sum(widths) + gap * (len(widths) - 1) <= width


def _widest(lines: Sequence[Sequence[str]], column: int) -> int:
    return max(len(line[column]) for line in lines)


def _longest_word(lines: Sequence[Sequence[str]], column: int) -> int:
    return max((len(word) for line in lines for word in line[column].split()), default=0)


def _wrapped_cell(cell: str, width: int) -> list[str]:
    return textwrap.wrap(cell, width, break_on_hyphens=False) or [""]


def _line(cells: Sequence[str], widths: Sequence[int], left: int, gap: int = GAP) -> str:
    padded = [
        cell.ljust(width) if i < left else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return (" " * gap).join(padded).rstrip()
